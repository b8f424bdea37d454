// Named sites at which a test injects faults; a build without tests has none.
//
// NVLLM_FAULTS="rule[;rule ...]" in the environment, read at a process's first fault point, each
// rule
//
//   site[@subject]:hit=action
//
// site     the name that the code passes to fault_point(), such as file.write: before each system
//          call that may fill the disk (files that are made, written, flushed or renamed, and
//          folders that are made). CONTRIBUTING.md lists all sites.
// subject  a number that the site passes. A rule without it matches every number.
// hit      N: the N-th time that the rule matches, from 1; N+: from then on; *: every time
// action   throw         throws Error{internal}
//          bad_alloc     throws std::bad_alloc
//          sleep=MS      sleeps so many milliseconds
//          abort         ends the process with SIGABRT
//          kill          ends the process with SIGKILL, which no handler sees
//          say           writes the site's name to standard error, a line for each hit
//          nan           the site treats its numbers as NaN
//          errno=N       the site treats its system call as failed with errno N
//
// Hits are counted for each rule and in each process: a process that is started again counts from
// one. Thread-safe. Compiled in where NVLLM_FAULT_POINTS is defined, which CMake does when tests
// are built; elsewhere fault_point() is an empty inline function.
#pragma once

#include <cstdint>
#include <string>

namespace nvllm {

// The fault that a site simulates; the other actions happen inside fault_point().
struct InjectedFault {
    bool not_a_number = false;
    int error_number = 0;  // as errno; 0: none
};

#ifdef NVLLM_FAULT_POINTS

inline constexpr bool kHasFaultPoints = true;

// A site: carries out the rules that match it. Throws the exception of a rule.
InjectedFault fault_point(const char* site, int64_t subject = -1);

// Replaces the rules, written as in NVLLM_FAULTS, with their counts at zero; empty: none. Throws
// usage for a text that is no rule.
void set_fault_points(const std::string& rules);

#else

inline constexpr bool kHasFaultPoints = false;

constexpr InjectedFault fault_point(const char*, int64_t = -1) { return {}; }

#endif

}  // namespace nvllm
