// @TITLE@, trained by WebGPU in a browser or its workers. The types beside it say what there is.
@RUNTIME@
// What a program asks for beside what a page does.
class Model extends Training {
  // Data to run over instead of what there was, arrays of any number of rows by the paths of the batch.
  async give(data) {
    const { inputs } = this.page.step, { size } = this.page.rows;
    if (!size) throw new TypeError("The batches of this step have no rows: call step.");
    const arrays = inputs.map((x) => checked({ ...x, shape: ["rows", ...x.shape.slice(1)] }, data[x.path]));
    known("input", inputs.map((x) => x.path), Object.keys(data));
    const counts = [...new Set(arrays.map((x, i) => (size * x.byteLength) / inputs[i].nbytes))];
    const wanted = `Rows, as many in each array and at least ${size}, are wanted, not ${counts.join(" and ")}.`;
    if (counts.length > 1 || counts[0] % 1 || counts[0] < size) throw new RangeError(wanted);
    return this.queued(() => {
      const made = new Rows(this, { ...this.page.rows, count: counts[0] }, arrays.map(own));
      this.rows?.destroy();
      this.rows = made;
    });
  }
  // A step on one batch, arrays by their paths: {loss, finite, captures}.
  step(batch) {
    return this.queued(async () => {
      this.fill(this.page.step.inputs, batch);
      const { losses, finite, captures, failed } = await this.steps(1);
      if (failed) throw new RangeError(failed);
      return { loss: losses[0], finite: finite[0], captures };
    });
  }
  // Give back the memory of the card.
  destroy() { this.device.destroy(); }
}
const PROGRAM = @PROGRAM@;
export const create = () => Model.create(PROGRAM);
