// The samples of one test.
#include "lib/measure/kernels/micro.h"

#include <fmt/format.h>

#include "lib/base/random_source.h"
#include "lib/engine/input_processor.h"
#include "lib/measure/environment.h"

namespace nvllm {
namespace {

// The ids of a test: what is in the cache before, then what is timed.
class MicroRunner {
  public:
    MicroRunner(EngineLoad& load, const MicroTest& test, uint64_t seed)
        : load_(load),
          test_(test),
          random_(seed),
          salt_(fmt::format("after {} steps", load.engine().stats().scheduler.steps)) {
        shared_ = ids(test.num_prompt > 0 ? test.depth : std::max(1, test.depth));
        if (test.num_prompt > 0 && test.depth > 0) fill_cache();
    }

    double sample_ns() {
        std::vector<int32_t> prompt = shared_;
        const std::vector<int32_t> own = ids(test_.num_prompt);  // found in no cache
        prompt.insert(prompt.end(), own.begin(), own.end());
        const RequestOutput last = run(std::move(prompt), test_.num_generated + 1);
        const RequestTimes& times = last.times;
        if (test_.num_prompt > 0 && last.num_cached_tokens != test_.depth) throw_not_cached(last);
        const double from_s =
            test_.num_prompt > 0 ? *times.first_scheduled_s : *times.first_token_s;
        const double to_s = test_.num_generated > 0 ? *times.finished_s : *times.first_token_s;
        return (to_s - from_s) * 1e9;
    }

  private:
    std::vector<int32_t> ids(int32_t count) {
        const auto vocab = static_cast<uint64_t>(load_.engine().model_config().vocab_size);
        std::vector<int32_t> drawn;
        for (int32_t i = 0; i < count; ++i) {
            drawn.push_back(static_cast<int32_t>(random_.below(vocab)));
        }
        return drawn;
    }

    // A prompt's own last token is always computed, so one more token makes all before it blocks.
    void fill_cache() {
        std::vector<int32_t> prompt = shared_;
        prompt.push_back(0);
        run(std::move(prompt), 1);
    }

    RequestOutput run(std::vector<int32_t> prompt, int32_t max_tokens) {
        RequestInput input;
        input.prompt = std::move(prompt);
        input.sampling.temperature = 0.0f;
        input.sampling.max_tokens = max_tokens;
        input.sampling.ignore_eos = true;
        input.cache_salt = salt_;
        std::vector<Request> requests;
        requests.push_back(std::move(load_.engine().prepare(input).value_or_throw()));
        RequestOutput last;
        const LoadResult result =
            load_.run_requests(std::move(requests), {}, {},
                               [&](size_t, const RequestOutput& output) { last = output; });
        if (result.requests[0].error) {
            throw Error(ErrorKind::internal, "a request failed: " + *result.requests[0].error);
        }
        return last;
    }

    [[noreturn]] void throw_not_cached(const RequestOutput& output) const {
        throw Error(ErrorKind::usage,
                    fmt::format("{}: {} of the {} tokens before it were found in the cache; the "
                                "depth must be a multiple of --block-size and fit "
                                "--kv-cache-memory-bytes",
                                test_.name(), output.num_cached_tokens, test_.depth));
    }

    EngineLoad& load_;
    const MicroTest& test_;
    RandomSource random_;
    std::string salt_;  // no two tests of an engine share blocks, whatever their ids
    std::vector<int32_t> shared_;
};

}  // namespace

std::string MicroTest::name() const {
    std::string name;
    if (num_prompt > 0) name += fmt::format("pp{}", num_prompt);
    if (num_prompt > 0 && num_generated > 0) name += "+";
    if (num_generated > 0) name += fmt::format("tg{}", num_generated);
    if (depth > 0) name += fmt::format(" @ d{}", depth);
    return name;
}

std::vector<MicroTest> micro_tests(const MicroTestLists& lists) {
    std::vector<MicroTest> tests;
    const auto add = [&](MicroTest test, int32_t depth) {
        test.depth = depth;
        if (test.num_prompt + test.num_generated > 0) tests.push_back(test);
    };
    for (const int32_t depth : lists.depths) {
        for (const int32_t count : lists.prompts) add({.num_prompt = count}, depth);
        for (const int32_t count : lists.generated) add({.num_generated = count}, depth);
        for (const MicroTest& both : lists.together) add(both, depth);
    }
    return tests;
}

std::vector<double> MicroResult::tokens_per_second() const {
    std::vector<double> rates;
    for (const double sample : samples_ns) {
        rates.push_back(1e9 * (test.num_prompt + test.num_generated) / std::max(sample, 1.0));
    }
    return rates;
}

MicroResult measure_micro(EngineLoad& load, const MicroTest& test, int32_t repeats, bool warms_up,
                          uint64_t seed, const std::function<void()>& done) {
    MicroResult result{test, {}, iso_time_stamp()};
    try {
        MicroRunner runner(load, test, seed);
        for (int32_t i = warms_up ? -1 : 0; i < repeats; ++i) {
            const double sample_ns = runner.sample_ns();
            if (i >= 0) result.samples_ns.push_back(sample_ns);
            if (done) done();
        }
    } catch (const Interrupted&) {
        if (result.samples_ns.empty()) throw;
    }
    return result;
}

}  // namespace nvllm
