// Collects what the engine streams into answers, and prints them in the order of the input.
//
// Outputs arrive on the engine thread, prompts are added on the main thread; one mutex guards all.
#pragma once

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error_kinds.h"
#include "lib/cli/terminal_text.h"
#include "lib/engine/engine.h"
#include "lib/engine/options/request_json.h"

namespace nvllm::run {

enum class OutputFormat { text, json, jsonl };

// One continuation of one prompt.
struct Choice {
    std::string text;
    std::vector<int32_t> token_ids;
    std::vector<SampledLogprobs> logprobs;
    std::optional<FinishReason> finish;
    std::optional<Fault> fault;
    int32_t num_tokens = 0;
    std::optional<double> cumulative_logprob;
};

// One prompt and all that was made of it.
struct Response {
    size_t index = 0;
    JsonRequest request;
    std::vector<int32_t> prompt_token_ids;
    std::vector<Choice> choices;
    std::vector<SampledLogprobs> prompt_logprobs;  // from the second prompt token on
    int32_t num_cached_tokens = 0;
    int32_t num_without_state = 0;
    RequestTimes times;
    std::string place;           // of the prompt in the input, for messages: "line 6"
    std::optional<Fault> fault;  // of the prompt as a whole
    bool finished = false;
};

// Writes to `stream` in the format asked for: each answer as soon as it and those before it are
// done; the text of the answer whose turn it is as it comes. On a terminal, control characters are
// shown and do nothing.
class AnswerPrinter {
  public:
    AnswerPrinter(const Engine& engine, OutputFormat format, std::FILE* stream);

    // The index of the next prompt's answer; `place` is where the prompt stands in the input.
    // `fault` for one that never reached the engine.
    size_t add(JsonRequest request, std::vector<int32_t> prompt_token_ids, std::string place);
    void add_fault(JsonRequest request, Fault fault, std::string place);
    // What the engine says of the answer at `index`.
    void take(size_t index, RequestOutput&& output);
    // No further prompts: closes the array of the json format. Call after wait().
    void close();

    // Blocks until at most `max_open` answers are not printed yet, `interrupted` says so, or the
    // stream is broken.
    void wait(size_t max_open, const std::function<bool()>& interrupted);

    // A prompt failed; its kind decides the program's exit code.
    std::optional<ErrorKind> first_fault() const;
    // Generated so far, of all answers.
    int64_t num_tokens() const;
    // Whether an answer had anything but white space in it.
    bool has_text() const;
    // The reader went away: nothing more can be printed.
    bool broken() const;
    // Why nothing more can be printed, when it was not that: a full disk, say.
    std::optional<std::string> write_fault() const;

  private:
    void print_ready();
    void print_text(Response& answer);
    void print_object(const Response& answer);
    void write(const std::string& text);

    const Engine& engine_;
    OutputFormat format_;
    std::FILE* stream_;
    bool is_terminal_;
    TerminalText harmless_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::map<size_t, Response> answers_;  // not yet printed
    size_t num_added_ = 0;
    size_t num_printed_ = 0;
    size_t num_objects_ = 0;    // printed, of all formats
    size_t shown_bytes_ = 0;    // of the text of the answer whose turn it is
    std::string held_objects_;  // json: the first, until it is known whether there are several
    std::optional<ErrorKind> first_fault_;
    int64_t num_tokens_ = 0;
    bool has_text_ = false;
    bool broken_ = false;
    std::optional<std::string> write_fault_;
};

// The answer as objects: one for each choice.
std::vector<std::string> answer_objects(const Response& answer, const Engine& engine);

}  // namespace nvllm::run
