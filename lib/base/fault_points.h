// Named places where a test can make things go wrong; there are none in a build without tests.
//
// NVLLM_FAULTS="rule[;rule ...]" in the environment, read at a process's first fault point, each
// rule
//
//   site[@subject]:hit=action
//
// site     worker.start     in the worker, before the model is loaded
//          worker.step      in the worker, before a step computes anything
//          worker.sequence  in the worker, once for each sequence of a step, in the plan's order
//          worker.logits    in the worker, once for each row of logits, in the batch's order
//          engine.step      in the engine's loop, before a step is handed to the worker
//          engine.fragmentation  in the engine's loop, about once a second: nan makes it 1
//          quantize.block   in nvllm-quantize, when a block is solved and not yet kept
//          quantize.publish in nvllm-quantize, before its output appears
//          file.write       before each system call that wants room on the disk: of files that
//                           are made, written, flushed or renamed, and of folders that are made
// subject  a number that the site names: of worker.sequence and worker.logits the first token of
//          the sequence's prompt; of quantize.block the block. Without it, a rule is for all.
// hit      N: the N-th time that the rule matches, from 1; N+: from then on; *: every time
// action   throw         throws Error{internal}
//          bad_alloc     throws std::bad_alloc
//          sleep=MS      sleeps so many milliseconds
//          abort         ends the process with SIGABRT
//          kill          ends it with SIGKILL, as nobody can prepare for
//          say           writes the site's name to standard error, a line for each hit
//          nan           the site is to take its numbers for NaN (worker.logits)
//          errno=N       the site is to take its system call for failed with errno N
//
// Hits are counted for each rule and in each process: a worker that was started again counts from
// one. Thread-safe. Compiled in where NVLLM_FAULT_POINTS is defined, which CMake does when tests
// are built; elsewhere fault_point() is an empty inline function.
#pragma once

#include <cstdint>
#include <string>

namespace nvllm {

// What a site has to pretend; the other actions happen inside fault_point().
struct InjectedFault {
    bool not_a_number = false;
    int error_number = 0;  // as errno; 0: none
};

#ifdef NVLLM_FAULT_POINTS

inline constexpr bool kHasFaultPoints = true;

// Passes a site of which rules may know. Throws what a rule says.
InjectedFault fault_point(const char* site, int64_t subject = -1);

// Rules in place of those that are in force, as in NVLLM_FAULTS, with their counts at zero; empty:
// none. Throws usage for what is no rule.
void set_fault_points(const std::string& rules);

#else

inline constexpr bool kHasFaultPoints = false;

constexpr InjectedFault fault_point(const char*, int64_t = -1) { return {}; }

#endif

}  // namespace nvllm
