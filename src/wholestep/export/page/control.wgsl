// What looks at checks and branches between the kernels, and what brings rows to their places. The heap is that of the
// kernels. `order` says what is looked at, and a row of `rows` whose first word is 0 is a launch of nothing.
@group(0) @binding(0) var<uniform> order: array<vec4<u32>, @VECTORS@>;
@group(0) @binding(2) var<storage, read_write> rows: array<u32>;
@group(0) @binding(3) var<storage, read_write> status: array<u32>;
fn asked(i: u32) -> u32 { return order[i / 4][i % 4]; }
fn halt() {
  status[0] = 1;
  for (var i = 0u; i < asked(1); i++) { rows[asked(2) * i] = 0; }
}
@compute @workgroup_size(1)
fn control() {
  if (status[0] != 0) { return; }
  let place = asked(3) >> 2;
  if (asked(0) == 0) {
    if (heap[place] != asked(4) || heap[place + 1] != asked(5)) {
      status[1] = asked(6);
      status[2] = heap[asked(7) >> 2];
      status[3] = heap[(asked(7) >> 2) + 1];
      halt();
    }
  } else if (asked(0) == 1) {
    var taken = heap[place];
    if (bitcast<i32>(heap[place + 1]) < 0) { taken = 0; }
    if (bitcast<i32>(heap[place + 1]) > 0 || taken >= asked(5)) { taken = asked(5) - 1; }
    if (asked(6) == 1 && taken != asked(5) - 1) { status[5] = 1; }
    status[8 + asked(4)] = taken;
    for (var c = 0u; c < asked(5); c++) {
      for (var i = asked(8 + 2 * c); i < asked(9 + 2 * c); i++) {
        rows[asked(2) * i] = select(0, rows[asked(2) * i + asked(2) - 1], c == taken);
      }
    }
  } else {
    status[4] += 1;
    if (status[5] != 0) { halt(); }
  }
}
// The rows of a batch: `order` has their place, the bytes of one and of all, `rows` the data, `status` their numbers.
fn source(i: u32) -> u32 { return status[i / asked(1)] * asked(1) + i % asked(1); }
@compute @workgroup_size(64)
fn gather(@builtin(global_invocation_id) item: vec3<u32>, @builtin(num_workgroups) count: vec3<u32>) {
  let i = 4 * (item.x + 64 * count.x * item.y);
  if (i >= asked(2)) { return; }
  var x = 0u;
  if (asked(1) % 4 == 0) {
    x = rows[source(i) >> 2];
  } else {
    for (var b = 0u; b < min(4, asked(2) - i); b++) {
      let place = source(i + b);
      x |= ((rows[place >> 2] >> (8 * (place & 3))) & 255) << (8 * b);
    }
  }
  heap[(asked(0) + i) >> 2] = x;
}
