/** @TITLE@, trained by WebGPU. Arrays have the paths of a checkpoint; those of 16 bits are the bits of a number. */
export interface Batch {@BATCH@}
export interface Captures {@CAPTURES@}
export interface HyperParameters {@HYPER@}
export interface Functions {@FUNCTIONS@}

export interface StepResult {
  loss: number;
  /** False for a step that was left out, since something was not finite. */
  finite: boolean;
  captures: Captures;
}
export interface RunResult {
  losses: number[];
  finite: boolean[];
  /** Those of the last step; none where something failed. */
  captures: Partial<Captures>;
  /** What failed in the step after these, with the line of Python; the state is as it was before that step. */
  failed: string | null;
}

export declare class Training {
  private constructor();
  /** The adapter, as far as the browser names it. */
  readonly name: string;
  /** One step on a batch. Throws RangeError for an index that is out of bounds, the state as it was. */
  step(batch: Batch): Promise<StepResult>;
  /** Steps over the data in the module, or over what was given, shuffled as `step.run` of Python does. */
  run(count?: number): Promise<RunResult>;
  /** Data to run over: the arrays of a batch with any number of rows. */
  give(data: Batch): Promise<void>;
  /** A function on the parameters as they are now. */
  call<Name extends keyof Functions>(name: Name, batch: Functions[Name]["batch"]): Promise<Functions[Name]["results"]>;
  set(values: Partial<HyperParameters>): Promise<void>;
  /** The state as it was exported. */
  reset(): Promise<void>;
  /** The state as the bytes of a safetensors file, which `step.load` of Python takes. */
  save(): Promise<Uint8Array<ArrayBuffer>>;
  /** Take over such a file, or one that `step.save` has written; throws TypeError or RangeError and changes nothing. */
  load(file: ArrayBuffer | Uint8Array): Promise<void>;
  /** Give back the memory of the card. */
  destroy(): void;
}

/** The training in its first state; throws Error with the reason where there is no WebGPU. */
export declare function create(): Promise<Training>;
