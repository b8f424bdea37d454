// Engines with a small model, and what gathers their answers.
#pragma once

#include <doctest/doctest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "lib/engine/engine.h"
#include "lib/engine/input_processor.h"
#include "tests/shared_data.h"

namespace nvllm::test {

inline EngineConfig small_config() {
    EngineConfig config;
    config.model.name = source_path("models/demo-draft").string();
    config.compute.placement.num_threads = 2;
    config.memory.kv_cache_bytes = uint64_t{8} << 20;
    config.memory.max_model_len = 512;
    return config;
}

inline RequestInput completion(const std::string& prompt, int32_t max_tokens) {
    RequestInput input;
    input.prompt = prompt;
    input.sampling.temperature = 0.0f;
    input.sampling.max_tokens = max_tokens;
    input.sampling.ignore_eos = true;
    return input;
}

// Gathers a request's outputs and lets the test wait for their end.
class Collector {
  public:
    OutputListener listener() {
        return [this](RequestOutput&& output) {
            const std::lock_guard lock(mutex_);
            CHECK_FALSE(last_.finished);
            for (ContinuationOutput& part : output.continuations) {
                const auto index = static_cast<size_t>(part.index);
                if (texts_.size() <= index) {
                    texts_.resize(index + 1);
                    ids_.resize(index + 1);
                    finishes_.resize(index + 1);
                }
                texts_[index] += part.text;
                ids_[index].insert(ids_[index].end(), part.token_ids.begin(), part.token_ids.end());
                if (part.finish_reason) finishes_[index] = part.finish_reason;
                if (part.fault) fault_ = part.fault;
            }
            num_prompt_logprobs_ += output.prompt_logprobs.size();
            last_ = std::move(output);
            ++num_outputs_;
            changed_.notify_all();
        };
    }
    void wait() {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return last_.finished; });
    }
    void wait_for_outputs(int count) {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return num_outputs_ >= count || last_.finished; });
    }

    const std::string& text(size_t index = 0) const { return texts_.at(index); }
    const std::vector<int32_t>& ids(size_t index = 0) const { return ids_.at(index); }
    FinishReason finish(size_t index = 0) const { return finishes_.at(index).value(); }
    const std::optional<Fault>& fault() const { return fault_; }
    const RequestOutput& last() const { return last_; }
    int num_outputs() const { return num_outputs_; }
    size_t num_prompt_logprobs() const { return num_prompt_logprobs_; }
    size_t num_continuations() const { return texts_.size(); }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::vector<std::string> texts_;
    std::vector<std::vector<int32_t>> ids_;
    std::vector<std::optional<FinishReason>> finishes_;
    std::optional<Fault> fault_;
    RequestOutput last_;
    std::atomic<int> num_outputs_ = 0;
    size_t num_prompt_logprobs_ = 0;
};

// Runs one request to its end.
inline void run(Engine& engine, const RequestInput& input, Collector& collector) {
    auto request = engine.prepare(input);
    REQUIRE(request);
    engine.submit(std::move(*request), collector.listener());
    collector.wait();
}

}  // namespace nvllm::test
