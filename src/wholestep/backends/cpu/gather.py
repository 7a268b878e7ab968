"""Reading arrays where Python keeps them, as LLVM text; `support.py` fills in the offsets."""

GATHER_HEAD = ("count", "ranges", "length", "items", "type", "tp", "data", "ndim", "shape", "dtype", "flags", "wanted")
"""How Python objects are laid out in this interpreter, at the head of what `ws_gather` is asked; see `arguments.py`."""

GATHER = """\
; Put the data pointers of a tuple of arrays into the table. 0, or -1 where an array is not exactly as expected or
; shares memory with the program's own; the caller holds the interpreter lock.
define i64 @ws_gather(ptr %call, ptr %tuple) {
entry:
  %ask = load ptr, ptr %call
  %table.at = getelementptr i8, ptr %call, i64 $CALL.table
  %table = load ptr, ptr %table.at
  %count = load i64, ptr %ask
$HEAD  %items = getelementptr i8, ptr %tuple, i64 %items.v
  %bounds = getelementptr i8, ptr %ask, i64 $HEAD_BYTES
  %ranges.n = shl i64 %ranges.v, 1
  %first = getelementptr i64, ptr %bounds, i64 %ranges.n
  %wanted = trunc i64 %wanted.v to i32
  %length.at = getelementptr i8, ptr %tuple, i64 %length.v
  %length = load i64, ptr %length.at
  %right = icmp eq i64 %length, %count
  br i1 %right, label %next, label %bad
next:
  %k = phi i64 [ 0, %entry ], [ %k.next, %good ]
  %row = phi ptr [ %first, %entry ], [ %row.next, %good ]
  %more = icmp slt i64 %k, %count
  br i1 %more, label %look, label %fine
fine:
  ret i64 0
look:
  %k.next = add i64 %k, 1
  %item.at = getelementptr ptr, ptr %items, i64 %k
  %item = load ptr, ptr %item.at
  %tp.at = getelementptr i8, ptr %item, i64 %tp.v
  %tp = load i64, ptr %tp.at
  %is.array = icmp eq i64 %tp, %type.v
  br i1 %is.array, label %array, label %bad
array:
  %slot = load i64, ptr %row
  %dtype.want.at = getelementptr i64, ptr %row, i64 1
  %dtype.want = load i64, ptr %dtype.want.at
  %bytes.at = getelementptr i64, ptr %row, i64 2
  %bytes = load i64, ptr %bytes.at
  %ndim.want.at = getelementptr i64, ptr %row, i64 3
  %ndim.want = load i64, ptr %ndim.want.at
  %dims.want = getelementptr i64, ptr %row, i64 4
  %row.next = getelementptr i64, ptr %dims.want, i64 %ndim.want
  %dtype.at = getelementptr i8, ptr %item, i64 %dtype.v
  %dtype = load i64, ptr %dtype.at
  %dtype.ok = icmp eq i64 %dtype, %dtype.want
  %ndim.at = getelementptr i8, ptr %item, i64 %ndim.v
  %ndim.w = load i32, ptr %ndim.at
  %ndim = sext i32 %ndim.w to i64
  %ndim.ok = icmp eq i64 %ndim, %ndim.want
  %flags.at = getelementptr i8, ptr %item, i64 %flags.v
  %flags = load i32, ptr %flags.at
  %flags.have = and i32 %flags, %wanted
  %flags.ok = icmp eq i32 %flags.have, %wanted
  %some = and i1 %dtype.ok, %ndim.ok
  %all = and i1 %some, %flags.ok
  br i1 %all, label %dims, label %bad
dims:
  %shape.at = getelementptr i8, ptr %item, i64 %shape.v
  %shape = load ptr, ptr %shape.at
  br label %dim
dim:
  %d = phi i64 [ 0, %dims ], [ %d.next, %dim.check ]
  %d.more = icmp slt i64 %d, %ndim
  br i1 %d.more, label %dim.check, label %apart
dim.check:
  %d.next = add i64 %d, 1
  %have.at = getelementptr i64, ptr %shape, i64 %d
  %have = load i64, ptr %have.at
  %want.at = getelementptr i64, ptr %dims.want, i64 %d
  %want = load i64, ptr %want.at
  %dim.ok = icmp eq i64 %have, %want
  br i1 %dim.ok, label %dim, label %bad
apart:
  %data.at = getelementptr i8, ptr %item, i64 %data.v
  %data = load i64, ptr %data.at
  %end = add i64 %data, %bytes
  br label %range
range:
  %r = phi i64 [ 0, %apart ], [ %r.next, %range.check ]
  %r.more = icmp slt i64 %r, %ranges.n
  br i1 %r.more, label %range.check, label %good
range.check:
  %r.next = add i64 %r, 2
  %low.at = getelementptr i64, ptr %bounds, i64 %r
  %low = load i64, ptr %low.at
  %r.high = add i64 %r, 1
  %high.at = getelementptr i64, ptr %bounds, i64 %r.high
  %high = load i64, ptr %high.at
  %under = icmp ule i64 %end, %low
  %over = icmp uge i64 %data, %high
  %clear = or i1 %under, %over
  br i1 %clear, label %range, label %bad
good:
  %place = getelementptr i64, ptr %table, i64 %slot
  store i64 %data, ptr %place
  br label %next
bad:
  ret i64 -1
}

; Both at once: -1 for arrays that are not as expected, else what the program returns.
define i64 @ws_call(ptr %call, ptr %tuple) {
entry:
  %wrong = call i64 @ws_gather(ptr %call, ptr %tuple)
  %ready = icmp eq i64 %wrong, 0
  br i1 %ready, label %go, label %refuse
refuse:
  ret i64 %wrong
go:
  %r = call i64 @ws_run(ptr %call)
  ret i64 %r
}
"""
