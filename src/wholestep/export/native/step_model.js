//     const model = await instantiate(bytes of @NAME@.wasm);
//     await model.load(bytes of a state that step.save of wholestep has written);
//     model.arrays["batch.x"].set(...);
//     model.step();
//     model.arrays.loss[0];
//     const file = await model.save();
//
// `arrays` has the batch, the results and the state by their paths, as typed arrays over the memory of the program.
// Functions beside the step are run by their names, and `arrays` has theirs as "name.path".
class Model extends Program {
  file = new StateFile(@HEAD@, @STATE@);

  // Take over a state, whole or not at all.
  async load(file) {
    for (const [place, own] of await this.file.read(file)) this.bytes.set(own, BLOCK + place);
  }

  // The state as the bytes of a file that step.load of wholestep takes.
  save() {
    return this.file.written((place, nbytes) => this.bytes.slice(BLOCK + place, BLOCK + place + nbytes));
  }
}
