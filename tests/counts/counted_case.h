// A piece of work whose instructions are counted.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/context.h"

namespace nvllm::counts {

// Each call of run() after a call of prepare() executes the same instructions, but for the first,
// which may allocate and fill tables; only a later one is counted.
struct CountedCase {
    std::string name;               // its key among the expected counts
    std::function<void()> prepare;  // not counted; may be empty
    std::function<void()> run;
};

// Makes a case with its operands when it is called: they need not all fit at once.
using CaseMaker = std::function<CountedCase()>;

// The ops of the CPU backend. `context` must outlive the cases.
void add_op_cases(const Context& context, std::vector<CaseMaker>& makers);
// Whole steps: the bookkeeping alone, and with the model in `model_directory`.
void add_step_cases(const std::string& model_directory, std::vector<CaseMaker>& makers);
// Text, sampling, calls and answers. `model_directory` has a tokenizer.
void add_host_cases(const std::string& model_directory, std::vector<CaseMaker>& makers);

}  // namespace nvllm::counts
