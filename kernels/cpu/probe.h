// What this machine can do at best: the yardsticks for measured speeds.
//
// A measured rate belongs to its moment: bandwidth on a shared host may halve from one second to
// the next. Probe beside what is measured.
#pragma once

#include <cstddef>

namespace nvllm {

class ThreadPool;

// GB/s (10^9 bytes) at which the pool's threads together read a buffer of `bytes`, best of
// `repeats` passes each way: each thread reads its own contiguous part from front to back, or its
// four quarters side by side. Huge pages, where the system gives them. `bytes` should be several
// times the caches: 1 GiB is a good choice. Throws std::bad_alloc.
double probe_read_bandwidth(ThreadPool& threads, size_t bytes, int repeats);

// GFLOP/s of float32 fused multiply-adds in registers, all threads together, for a tenth of a
// second (the best of five), on the instruction set in use.
double probe_float32_peak(ThreadPool& threads);

// The same for products of bfloat16 operands, as matmul with compute_type bfloat16 does them; equal
// to the float32 peak where there is no instruction for it.
double probe_bfloat16_peak(ThreadPool& threads);

// GOP/s of integer products and additions, as matmuls of int8 do them.
double probe_int8_peak(ThreadPool& threads);

// Nanoseconds in which a cache line goes from the caller's core to another thread's and back: the
// best of some batches of a thousand. Tells whether cores share a cache, which on virtual machines
// changes with where they are put. 0 where only one core may be used. Throws std::system_error
// where no thread can be started.
double probe_handover_ns();

}  // namespace nvllm
