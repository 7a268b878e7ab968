"""Sharing a program's work among threads, and its first error, as LLVM text; `support.py` fills in the offsets."""

THREADS = """\
declare i32 @ws_sleep(ptr, i64)
declare i32 @ws_ring(ptr, i64, ptr)
declare i32 @ws_yield()

; Ring for a worker if it sleeps.
define internal void @wake(ptr %worker) {
entry:
  %asleep.at = getelementptr i8, ptr %worker, i64 $WORKER.asleep
  %asleep = load atomic i64, ptr %asleep.at seq_cst, align 8
  %awake = icmp eq i64 %asleep, 0
  br i1 %awake, label %done, label %claim
claim:
  %swap = cmpxchg ptr %asleep.at, i64 1, i64 0 seq_cst seq_cst, align 8
  %mine = extractvalue { i64, i1 } %swap, 1
  br i1 %mine, label %ring, label %done
ring:
  %bell.at = getelementptr i8, ptr %worker, i64 $WORKER.bell
  %bell = load ptr, ptr %bell.at
  %ignored = call i32 @ws_ring(ptr %bell, i64 1, ptr null)
  br label %done
done:
  ret void
}

define void @ws_spin(i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @pause()
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %done
done:
  ret void
}

; The share of number %i out of %shares of [0, %n): it begins here, and the next one where it ends.
define internal i64 @share(i64 %n, i64 %shares, i64 %i) alwaysinline {
  %each = udiv i64 %n, %shares
  %rest = urem i64 %n, %shares
  %more = call i64 @llvm.umin.i64(i64 %i, i64 %rest)
  %base = mul i64 %each, %i
  %r = add i64 %base, %more
  ret i64 %r
}
declare i64 @llvm.umin.i64(i64, i64)

define void @ws_parallel(ptr %context, ptr %function, ptr %arguments, i64 %n) {
entry:
  %threads = load i64, ptr %context
  %shares = call i64 @llvm.umin.i64(i64 %threads, i64 %n)
  %alone = icmp ule i64 %shares, 1
  br i1 %alone, label %serial, label %begin
serial:
  %some = icmp ne i64 %n, 0
  br i1 %some, label %all, label %end
all:
  call void %function(ptr %arguments, i64 0, i64 %n)
  br label %end
begin:
  %pool.at = getelementptr i8, ptr %context, i64 $CONTEXT.pool
  %pool = load ptr, ptr %pool.at
  %workers = getelementptr i8, ptr %pool, i64 $POOL_FIRST
  br label %post
post:
  %i = phi i64 [ 1, %begin ], [ %i.next, %post ]
  %worker = getelementptr [$WORKER_BYTES x i8], ptr %workers, i64 %i
  %low = call i64 @share(i64 %n, i64 %shares, i64 %i)
  %i.next = add i64 %i, 1
  %high = call i64 @share(i64 %n, i64 %shares, i64 %i.next)
  %function.at = getelementptr i8, ptr %worker, i64 $WORKER.function
  store ptr %function, ptr %function.at
  %arguments.at = getelementptr i8, ptr %worker, i64 $WORKER.arguments
  store ptr %arguments, ptr %arguments.at
  %low.at = getelementptr i8, ptr %worker, i64 $WORKER.low
  store i64 %low, ptr %low.at
  %high.at = getelementptr i8, ptr %worker, i64 $WORKER.high
  store i64 %high, ptr %high.at
  %old = load atomic i64, ptr %worker monotonic, align 8
  %job = add i64 %old, 1
  store atomic i64 %job, ptr %worker seq_cst, align 8
  call void @wake(ptr %worker)
  %posted = icmp eq i64 %i.next, %shares
  br i1 %posted, label %own, label %post
own:
  %first = call i64 @share(i64 %n, i64 %shares, i64 1)
  call void %function(ptr %arguments, i64 0, i64 %first)
  br label %collect
collect:
  %k = phi i64 [ 1, %own ], [ %k.next, %collected ]
  %w = getelementptr [$WORKER_BYTES x i8], ptr %workers, i64 %k
  %k.next = add i64 %k, 1
  %now = load atomic i64, ptr %w monotonic, align 8
  %open = and i64 %now, -2
  %taken = or i64 %now, 1
  %swap = cmpxchg ptr %w, i64 %open, i64 %taken acq_rel monotonic, align 8
  %mine = extractvalue { i64, i1 } %swap, 1
  br i1 %mine, label %steal, label %wait
steal:
  %s.low = call i64 @share(i64 %n, i64 %shares, i64 %k)
  %s.high = call i64 @share(i64 %n, i64 %shares, i64 %k.next)
  call void %function(ptr %arguments, i64 %s.low, i64 %s.high)
  br label %collected
wait:
  %done.at = getelementptr i8, ptr %w, i64 $WORKER.done
  br label %look
look:
  %looks = phi i64 [ 0, %wait ], [ %looks.next, %again ]
  %done = load atomic i64, ptr %done.at acquire, align 8
  %ready = icmp eq i64 %done, %open
  br i1 %ready, label %collected, label %patience
patience:
  call void @pause()
  %looks.next = add i64 %looks, 1
  %long = icmp ugt i64 %looks.next, 5000
  br i1 %long, label %polite, label %again
polite:
  %ignored = call i32 @ws_yield()
  br label %again
again:
  br label %look
collected:
  %over = icmp eq i64 %k.next, %shares
  br i1 %over, label %end, label %collect
end:
  ret void
}

define void @ws_worker(ptr %pool, ptr %worker) {
entry:
  %saved = call i64 @ws_enter()
  %spins.at = getelementptr i8, ptr %pool, i64 $POOL.spins
  %stop.at = getelementptr i8, ptr %pool, i64 $POOL.stop
  %function.at = getelementptr i8, ptr %worker, i64 $WORKER.function
  %arguments.at = getelementptr i8, ptr %worker, i64 $WORKER.arguments
  %low.at = getelementptr i8, ptr %worker, i64 $WORKER.low
  %high.at = getelementptr i8, ptr %worker, i64 $WORKER.high
  %bell.at = getelementptr i8, ptr %worker, i64 $WORKER.bell
  %done.at = getelementptr i8, ptr %worker, i64 $WORKER.done
  %asleep.at = getelementptr i8, ptr %worker, i64 $WORKER.asleep
  %bell = load ptr, ptr %bell.at
  %spins = load i64, ptr %spins.at
  br label %look
look:
  %looks = phi i64 [ 0, %entry ], [ %looks, %claim ], [ 0, %work ], [ %looks.next, %spin ], [ 0, %woken ], [ 0, %sleep ]
  %state = load atomic i64, ptr %worker acquire, align 8
  %odd = trunc i64 %state to i1
  br i1 %odd, label %idle, label %claim
claim:
  %taken = or i64 %state, 1
  %swap = cmpxchg ptr %worker, i64 %state, i64 %taken acq_rel monotonic, align 8
  %mine = extractvalue { i64, i1 } %swap, 1
  br i1 %mine, label %work, label %look
work:
  %function = load ptr, ptr %function.at
  %arguments = load ptr, ptr %arguments.at
  %low = load i64, ptr %low.at
  %high = load i64, ptr %high.at
  call void %function(ptr %arguments, i64 %low, i64 %high)
  store atomic i64 %state, ptr %done.at release, align 8
  br label %look
idle:
  %stop = load atomic i64, ptr %stop.at monotonic, align 8
  %stopped = icmp ne i64 %stop, 0
  br i1 %stopped, label %leave, label %patience
patience:
  %tired = icmp uge i64 %looks, %spins
  br i1 %tired, label %rest, label %spin
spin:
  call void @pause()
  %looks.next = add i64 %looks, 1
  br label %look
; Say so first and look again after: a share that is posted in between is seen here, or its poster rings.
rest:
  store atomic i64 1, ptr %asleep.at seq_cst, align 8
  %last = load atomic i64, ptr %worker seq_cst, align 8
  %nothing = trunc i64 %last to i1
  br i1 %nothing, label %sleep.if, label %woken
sleep.if:
  %late = load atomic i64, ptr %stop.at seq_cst, align 8
  %stays = icmp eq i64 %late, 0
  br i1 %stays, label %wait, label %leave
wait:
  %ignored = call i32 @ws_sleep(ptr %bell, i64 -1)
  br label %sleep
sleep:
  %rung = load atomic i64, ptr %asleep.at seq_cst, align 8
  %by.other = icmp eq i64 %rung, 0
  br i1 %by.other, label %look, label %woken
; Nobody rang; who does so from now on leaves a ring too many, which is no more than a look for nothing.
woken:
  store atomic i64 0, ptr %asleep.at seq_cst, align 8
  br label %look
leave:
  call void @ws_leave(i64 %saved)
  ret void
}

define void @ws_fail(ptr %context, i64 %site, i64 %position, i64 %value, i64 %axis, i64 %size) {
entry:
  %lock.at = getelementptr i8, ptr %context, i64 $CONTEXT.lock
  %status.at = getelementptr i8, ptr %context, i64 $CONTEXT.status
  %site.at = getelementptr i8, ptr %context, i64 $CONTEXT.site
  %position.at = getelementptr i8, ptr %context, i64 $CONTEXT.position
  br label %take
take:
  %swap = cmpxchg ptr %lock.at, i64 0, i64 1 acquire monotonic, align 8
  %free = extractvalue { i64, i1 } %swap, 1
  br i1 %free, label %compare, label %busy
busy:
  call void @pause()
  br label %take
compare:
  %status = load i64, ptr %status.at
  %none = icmp eq i64 %status, 0
  %old.site = load i64, ptr %site.at
  %old.position = load i64, ptr %position.at
  %lower = icmp slt i64 %site, %old.site
  %same = icmp eq i64 %site, %old.site
  %before = icmp slt i64 %position, %old.position
  %earlier = and i1 %same, %before
  %wins = or i1 %lower, %earlier
  %write = or i1 %none, %wins
  br i1 %write, label %store, label %release
store:
  store i64 %site, ptr %site.at
  store i64 %position, ptr %position.at
  %value.at = getelementptr i8, ptr %context, i64 $CONTEXT.value
  store i64 %value, ptr %value.at
  %axis.at = getelementptr i8, ptr %context, i64 $CONTEXT.axis
  store i64 %axis, ptr %axis.at
  %size.at = getelementptr i8, ptr %context, i64 $CONTEXT.size
  store i64 %size, ptr %size.at
  store atomic i64 1, ptr %status.at monotonic, align 8
  br label %release
release:
  store atomic i64 0, ptr %lock.at release, align 8
  ret void
}

; Claim the threads if they are free, run the program, give them back.
define i64 @ws_run(ptr %call) {
entry:
  %program.at = getelementptr i8, ptr %call, i64 $CALL.program
  %program = load ptr, ptr %program.at
  %table.at = getelementptr i8, ptr %call, i64 $CALL.table
  %table = load ptr, ptr %table.at
  %context.at = getelementptr i8, ptr %call, i64 $CALL.context
  %context = load ptr, ptr %context.at
  %saved = call i64 @ws_enter()
  %pool.at = getelementptr i8, ptr %context, i64 $CONTEXT.pool
  %pool = load ptr, ptr %pool.at
  %status.at = getelementptr i8, ptr %context, i64 $CONTEXT.status
  store i64 0, ptr %status.at
  %trips.at = getelementptr i8, ptr %context, i64 $CONTEXT.trips
  store i64 0, ptr %trips.at
  %stop.at = getelementptr i8, ptr %context, i64 $CONTEXT.stop
  store atomic i64 0, ptr %stop.at monotonic, align 8
  store i64 1, ptr %context
  %none = icmp eq ptr %pool, null
  br i1 %none, label %serial, label %claim
claim:
  %swap = cmpxchg ptr %pool, i64 0, i64 1 acquire monotonic, align 8
  %mine = extractvalue { i64, i1 } %swap, 1
  br i1 %mine, label %owner, label %serial
owner:
  %threads.at = getelementptr i8, ptr %pool, i64 $POOL.threads
  %threads = load i64, ptr %threads.at
  store i64 %threads, ptr %context
  %workers = getelementptr i8, ptr %pool, i64 $POOL_FIRST
  br label %each
each:
  %k = phi i64 [ 1, %owner ], [ %k.next, %one ]
  %more = icmp slt i64 %k, %threads
  br i1 %more, label %one, label %start
one:
  %worker = getelementptr [$WORKER_BYTES x i8], ptr %workers, i64 %k
  call void @wake(ptr %worker)
  %k.next = add i64 %k, 1
  br label %each
start:
  %owned = call i32 %program(ptr %table, ptr %context)
  store atomic i64 0, ptr %pool release, align 8
  br label %leave
serial:
  %alone = call i32 %program(ptr %table, ptr %context)
  br label %leave
leave:
  %result = phi i32 [ %owned, %start ], [ %alone, %serial ]
  call void @ws_leave(i64 %saved)
  %wide = sext i32 %result to i64
  ret i64 %wide
}
"""
