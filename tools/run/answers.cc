// Ordered printing of answers as text or JSON.
#include "tools/run/answers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

namespace nvllm::run {
namespace {

using Json = nlohmann::ordered_json;

Json token_json(const TokenLogprob& token, const Tokenizer* tokenizer) {
    Json object = {{"token", ""}, {"logprob", token.logprob}, {"bytes", nullptr}};
    if (tokenizer != nullptr) {
        const std::string bytes = tokenizer->token_bytes(token.token_id);
        object["token"] = bytes;
        object["bytes"] = Json::array();
        for (const char byte : bytes) object["bytes"].push_back(static_cast<uint8_t>(byte));
    }
    object["token_id"] = token.token_id;
    return object;
}

// The shape of the chat API, with ids beside it.
Json logprobs_json(const SampledLogprobs& token, const Tokenizer* tokenizer) {
    Json object = token_json(token.chosen, tokenizer);
    object["rank"] = token.rank;
    object["top_logprobs"] = Json::array();
    for (const TokenLogprob& top : token.top)
        object["top_logprobs"].push_back(token_json(top, tokenizer));
    return object;
}

Json logprobs_json(const std::vector<SampledLogprobs>& logprobs, const Tokenizer* tokenizer) {
    Json content = Json::array();
    for (const SampledLogprobs& token : logprobs)
        content.push_back(logprobs_json(token, tokenizer));
    return {{"content", std::move(content)}};
}

// One entry for each prompt token; null for the first, which nothing predicts.
Json prompt_logprobs_json(const Response& answer, const Tokenizer* tokenizer) {
    Json list = Json::array({nullptr});
    for (const SampledLogprobs& token : answer.prompt_logprobs) {
        list.push_back(logprobs_json(token, tokenizer));
    }
    return list;
}

double per_second(double count, double milliseconds) {
    return milliseconds > 0.0 ? count / milliseconds * 1000.0 : 0.0;
}

Json timings_json(const Response& answer, const Choice& choice, const Engine& engine) {
    const RequestTimes& times = answer.times;
    const double finished_s = times.finished_s.value_or(times.arrival_s);
    const double first_token_s = times.first_token_s.value_or(finished_s);
    const double prompt_ms =
        (first_token_s - times.first_scheduled_s.value_or(first_token_s)) * 1000.0;
    const double predicted_ms = (finished_s - first_token_s) * 1000.0;
    const auto computed =
        static_cast<double>(answer.prompt_token_ids.size()) - answer.num_cached_tokens;
    return {{"load_ms", engine.start_timings().total_ms},
            {"prompt_ms", prompt_ms},
            {"prompt_per_second", per_second(computed, prompt_ms)},
            {"predicted_ms", predicted_ms},
            {"predicted_per_second", per_second(choice.num_tokens - 1, predicted_ms)},
            {"ttft_ms", (first_token_s - times.arrival_s) * 1000.0}};
}

Json usage_json(const Response& answer, const Choice& choice) {
    Json usage = {
        {"prompt_tokens", answer.prompt_token_ids.size()},
        {"completion_tokens", choice.num_tokens},
        {"total_tokens", answer.prompt_token_ids.size() + static_cast<size_t>(choice.num_tokens)},
        {"cached_tokens", answer.num_cached_tokens}};
    if (answer.num_without_state > 0) usage["tokens_without_state"] = answer.num_without_state;
    return usage;
}

Json error_json(const Fault& fault) {
    return {{"message", fault.message}, {"type", error_kind_row(fault.kind).name}};
}

Json head_json(const Response& answer) {
    Json object = {{"index", answer.index}};
    if (answer.request.custom_id) object["custom_id"] = *answer.request.custom_id;
    return object;
}

Json choice_json(const Response& answer, size_t number, const Engine& engine) {
    const Choice& choice = answer.choices[number];
    const Tokenizer* tokenizer = engine.tokenizer().get();
    Json object = head_json(answer);
    if (answer.choices.size() > 1) object["choice"] = number;
    object["prompt"] = answer.request.prompt_text;
    object["prompt_token_ids"] = answer.prompt_token_ids;
    object["text"] = choice.text;
    object["token_ids"] = choice.token_ids;
    object["finish_reason"] =
        choice.finish ? Json(finish_reason_name(*choice.finish)) : Json(nullptr);
    object["logprobs"] = answer.request.input.sampling.logprobs
                             ? logprobs_json(choice.logprobs, tokenizer)
                             : Json(nullptr);
    if (choice.cumulative_logprob) object["cumulative_logprob"] = *choice.cumulative_logprob;
    if (answer.request.input.sampling.prompt_logprobs) {
        object["prompt_logprobs"] = prompt_logprobs_json(answer, tokenizer);
    }
    object["usage"] = usage_json(answer, choice);
    object["timings"] = timings_json(answer, choice, engine);
    if (choice.fault) object["error"] = error_json(*choice.fault);
    return object;
}

// Text may end in half a character only when a token did; JSON shows that as U+FFFD.
std::string dump(const Json& object) {
    return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::vector<std::string> answer_objects(const Response& answer, const Engine& engine) {
    if (answer.fault) {
        Json object = head_json(answer);
        object["prompt"] = answer.request.prompt_text;
        object["error"] = error_json(*answer.fault);
        return {dump(object)};
    }
    std::vector<std::string> objects;
    for (size_t number = 0; number < answer.choices.size(); ++number) {
        objects.push_back(dump(choice_json(answer, number, engine)));
    }
    return objects;
}

AnswerPrinter::AnswerPrinter(const Engine& engine, OutputFormat format, std::FILE* stream)
    : engine_(engine),
      format_(format),
      stream_(stream),
      is_terminal_(::isatty(::fileno(stream)) != 0) {}

size_t AnswerPrinter::add(JsonRequest request, std::vector<int32_t> prompt_token_ids,
                          std::string place) {
    const std::lock_guard lock(mutex_);
    const size_t index = num_added_++;
    Response& answer = answers_[index];
    answer.index = index;
    answer.choices.resize(static_cast<size_t>(request.input.sampling.n));
    answer.request = std::move(request);
    answer.prompt_token_ids = std::move(prompt_token_ids);
    answer.place = std::move(place);
    return index;
}

void AnswerPrinter::add_fault(JsonRequest request, Fault fault, std::string place) {
    const std::lock_guard lock(mutex_);
    const size_t index = num_added_++;
    Response& answer = answers_[index];
    answer.index = index;
    answer.request = std::move(request);
    answer.fault = std::move(fault);
    answer.place = std::move(place);
    answer.finished = true;
    print_ready();
}

void AnswerPrinter::take(size_t index, RequestOutput&& output) {
    const std::lock_guard lock(mutex_);
    Response& answer = answers_.at(index);
    for (ContinuationOutput& part : output.continuations) {
        Choice& choice = answer.choices.at(static_cast<size_t>(part.index));
        choice.text += part.text;
        has_text_ = has_text_ || part.text.find_first_not_of(" \t\r\n") != std::string::npos;
        num_tokens_ += static_cast<int64_t>(part.token_ids.size());
        choice.num_tokens += static_cast<int32_t>(part.token_ids.size());
        choice.token_ids.insert(choice.token_ids.end(), part.token_ids.begin(),
                                part.token_ids.end());
        for (SampledLogprobs& logprob : part.logprobs)
            choice.logprobs.push_back(std::move(logprob));
        if (part.finish_reason) choice.finish = part.finish_reason;
        if (part.fault) choice.fault = part.fault;
        if (part.cumulative_logprob) choice.cumulative_logprob = part.cumulative_logprob;
    }
    for (SampledLogprobs& logprob : output.prompt_logprobs)
        answer.prompt_logprobs.push_back(std::move(logprob));
    answer.num_cached_tokens = output.num_cached_tokens;
    answer.num_without_state = output.num_without_state;
    answer.times = output.times;
    answer.finished = output.finished;
    print_ready();
}

void AnswerPrinter::print_ready() {
    while (!answers_.empty() && answers_.begin()->first == num_printed_) {
        Response& answer = answers_.begin()->second;
        if (format_ == OutputFormat::text) {
            print_text(answer);
        } else if (answer.finished) {
            print_object(answer);
        }
        if (!answer.finished) break;
        std::optional<Fault> fault = answer.fault;
        for (const Choice& choice : answer.choices) {
            if (!fault) fault = choice.fault;
        }
        if (fault && !first_fault_) first_fault_ = fault->kind;
        if (fault && format_ == OutputFormat::text) {
            fmt::print(stderr, "nvllm-run: error: {}: {}\n", answer.place, fault->message);
        }
        answers_.erase(answers_.begin());
        ++num_printed_;
        shown_bytes_ = 0;
    }
    changed_.notify_all();
}

// A single continuation is shown as it grows; several are shown one after the other when all are
// done.
void AnswerPrinter::print_text(Response& answer) {
    if (answer.fault) return;
    if (answer.choices.size() == 1) {
        const std::string& text = answer.choices[0].text;
        if (text.size() > shown_bytes_) write(text.substr(shown_bytes_));
        shown_bytes_ = text.size();
    }
    if (!answer.finished) return;
    for (const Choice& choice : answer.choices) {
        if (answer.choices.size() > 1) write(choice.text);
        if (choice.text.empty() || choice.text.back() != '\n') write("\n");
    }
}

void AnswerPrinter::print_object(const Response& answer) {
    for (const std::string& object : answer_objects(answer, engine_)) {
        ++num_objects_;
        if (format_ == OutputFormat::jsonl) {
            write(object + "\n");
        } else if (num_objects_ == 1) {
            held_objects_ = object;  // an array only when a second one follows
        } else {
            write(num_objects_ == 2 ? "[" + held_objects_ + ",\n" + object : ",\n" + object);
        }
    }
}

void AnswerPrinter::close() {
    const std::lock_guard lock(mutex_);
    if (format_ != OutputFormat::json) return;
    if (num_objects_ == 0) write("[]\n");
    if (num_objects_ == 1) write(held_objects_ + "\n");
    if (num_objects_ > 1) write("]\n");
}

void AnswerPrinter::write(const std::string& given) {
    if (broken_) return;
    const std::string text = is_terminal_ ? harmless_.shown(given) : given;
    errno = 0;
    const bool written = std::fwrite(text.data(), 1, text.size(), stream_) == text.size();
    if (written && std::fflush(stream_) == 0) return;
    broken_ = true;
    if (errno != EPIPE) {
        write_fault_ = fmt::format("standard output: cannot write: {}", std::strerror(errno));
    }
}

void AnswerPrinter::wait(size_t max_open, const std::function<bool()>& interrupted) {
    std::unique_lock lock(mutex_);
    while (num_added_ - num_printed_ > max_open && !broken_ && !interrupted()) {
        changed_.wait_for(lock, std::chrono::milliseconds(50));
    }
}

std::optional<ErrorKind> AnswerPrinter::first_fault() const {
    const std::lock_guard lock(mutex_);
    return first_fault_;
}

std::optional<std::string> AnswerPrinter::write_fault() const {
    const std::lock_guard lock(mutex_);
    return write_fault_;
}

int64_t AnswerPrinter::num_tokens() const {
    const std::lock_guard lock(mutex_);
    return num_tokens_;
}

bool AnswerPrinter::has_text() const {
    const std::lock_guard lock(mutex_);
    return has_text_;
}

bool AnswerPrinter::broken() const {
    const std::lock_guard lock(mutex_);
    return broken_;
}

}  // namespace nvllm::run
