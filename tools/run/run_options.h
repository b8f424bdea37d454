// What nvllm-run does, beside the options of engine and sampling.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "lib/cli/options.h"

namespace nvllm::run {

struct RunOptions {
    std::vector<std::string> prompts;
    std::vector<std::filesystem::path> files;
    std::vector<std::string> prompt_ids;  // "1,2,3" each
    std::string input_format = "text";
    std::string output_format = "text";
    std::optional<bool> chat;  // prompts are messages; empty: they are not, and a hint may say so
    std::optional<std::string> system_prompt;
    bool allow_special_in_messages = false;
    std::optional<std::string> adapter;  // empty: see adapter_of_prompts()
    bool plan = false;
    std::optional<std::filesystem::path> step_log;
    std::optional<bool> show_timings;
    std::optional<std::filesystem::path> inspect_dump;
    std::optional<uint64_t> inspect_dump_step;
};

OptionList<RunOptions> run_options();

}  // namespace nvllm::run
