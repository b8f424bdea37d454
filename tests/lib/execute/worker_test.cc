// A worker's steps: masks, drafts, adapters, and several steps in flight.
#include "lib/execute/worker.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "kernels/host/thread_pool.h"
#include "kernels/ops/open_backend.h"
#include "lib/model/loader.h"
#include "tests/sanitized.h"
#include "tests/shared_data.h"

using namespace nvllm;

namespace {

constexpr int32_t kBlocks = 4;  // of each sequence
constexpr int32_t kTokens = 12;

ModelLoadOptions load_options(const DeviceChoice& device) {
    ModelLoadOptions options;
    options.device = device;
    options.directory = test::source_path("models/demo-draft");
    options.dtype = DType::f32;
    return options;
}

std::unique_ptr<Model> load(ThreadPool& threads, const DeviceChoice& device) {
    ModelLoadOptions options = load_options(device);
    options.threads = &threads;
    return load_model(options);
}

WorkerConfig small_config() {
    WorkerConfig config;
    config.num_blocks = {3 * kBlocks};
    return config;
}

SamplingParams params_of(float temperature) {
    SamplingParams params;
    params.temperature = temperature;
    params.seed = 77;
    params.logprobs = 2;
    return params;
}

class Steps {
  public:
    explicit Steps(const DeviceChoice& device = {})
        : worker(load(threads_, device), small_config(), threads_, open_device(device)) {}

    int32_t vocab() const { return static_cast<int32_t>(worker.model().config().vocab_size); }

    BatchPlan prefill(SequenceId sequence, const SamplingParams& sampling) {
        BatchPlan plan;
        plan.number = ++number_;
        AddedSequence& added = plan.added.emplace_back();
        added.sequence = sequence;
        added.token_ids = {300, 301, 302, 303 + static_cast<int32_t>(sequence)};
        added.num_prompt_tokens = 4;
        added.sampling = sampling;
        added.block_tables = {{}};
        PlanEntry& entry = plan.entries.emplace_back();
        entry.sequence = sequence;
        entry.count = 4;
        entry.output = OutputKind::sample;
        entry.new_blocks = {{}};
        for (int32_t i = 0; i < kBlocks; ++i) {
            entry.new_blocks[0].push_back(static_cast<int32_t>(sequence) * kBlocks + i);
        }
        return plan;
    }

    // From position `first`, where the last known token is, with drafts after it.
    BatchPlan decode(SequenceId sequence, int32_t first, DraftTokens drafts = {}) {
        BatchPlan plan;
        plan.number = ++number_;
        PlanEntry& entry = plan.entries.emplace_back();
        entry.sequence = sequence;
        entry.first = first;
        entry.count = 1 + drafts.size();
        entry.output = OutputKind::sample;
        if (!drafts.empty()) {
            plan.extras.push_back({.entry = 0, .drafts = std::move(drafts), .token_mask = {}});
        }
        return plan;
    }

    // Removes the sequence.
    void remove(SequenceId sequence) {
        BatchPlan plan;
        plan.number = ++number_;
        plan.removed = {sequence};
        worker.execute(plan);
    }

  private:
    ThreadPool threads_{2};
    uint64_t number_ = 0;

  public:
    Worker worker;
};

struct Generated {
    std::vector<int32_t> token_ids;
    std::vector<SampledLogprobs> logprobs;
    int32_t num_steps = 0;

    void add(const SequenceStep& step) {
        REQUIRE_FALSE(step.fault);
        token_ids.insert(token_ids.end(), step.token_ids.begin(), step.token_ids.end());
        logprobs.insert(logprobs.end(), step.logprobs.begin(), step.logprobs.end());
        ++num_steps;
    }
};

// Gives the drafts for a sequence that has generated so far.
using Propose = std::function<DraftTokens(const std::vector<int32_t>& generated)>;

Generated generate(Steps& steps, const SamplingParams& sampling, const Propose& propose) {
    Generated generated;
    generated.add(steps.worker.execute(steps.prefill(0, sampling)).sequences[0]);
    while (static_cast<int32_t>(generated.token_ids.size()) < kTokens) {
        const auto first = static_cast<int32_t>(generated.token_ids.size()) + 3;
        const DraftTokens drafts = propose(generated.token_ids);
        const StepResult result = steps.worker.execute(steps.decode(0, first, drafts));
        const size_t num_tokens = result.sequences[0].token_ids.size();
        REQUIRE(result.extras.size() == (drafts.empty() ? 0 : 1));
        if (!drafts.empty()) CHECK(result.extras[0].accepted_rows.size() + 1 == num_tokens);
        generated.add(result.sequences[0]);
    }
    steps.remove(0);
    generated.token_ids.resize(kTokens);
    generated.logprobs.resize(kTokens);
    return generated;
}

// The next `count` of `tokens`; each `wrong_each`th position is wrong.
Propose next_of(const std::vector<int32_t>& tokens, size_t count, size_t wrong_each) {
    return [&tokens, count, wrong_each](const std::vector<int32_t>& generated) {
        DraftTokens drafts;
        for (size_t i = generated.size(); i < std::min(generated.size() + count, tokens.size());
             ++i) {
            drafts.token_ids.push_back((i + 1) % wrong_each == 0 ? tokens[i] + 1 : tokens[i]);
        }
        return drafts;
    };
}

// A tree of the next `depth` of `tokens`, each behind `others` wrong ones that follow the same row
// and have a wrong one behind them.
Propose tree_of(const std::vector<int32_t>& tokens, size_t depth, int32_t others) {
    return [&tokens, depth, others](const std::vector<int32_t>& generated) {
        DraftTokens drafts;
        int32_t row = 0;
        const auto add = [&](int32_t token, int32_t parent) {
            drafts.token_ids.push_back(token);
            drafts.parents.push_back(parent);
            return drafts.size();
        };
        for (size_t i = generated.size(); i < std::min(generated.size() + depth, tokens.size());
             ++i) {
            for (int32_t other = 1; other <= others; ++other) {
                add(tokens[i] + 1, add(tokens[i] + other, row));
            }
            row = add(tokens[i], row);
        }
        return drafts;
    };
}

std::vector<SamplingParams> many_params() {
    std::vector<SamplingParams> all = {params_of(0.0f), params_of(1.0f), params_of(0.8f)};
    all[2].repetition_penalty = 1.3f;
    all[2].frequency_penalty = 0.4f;
    all[2].no_repeat_ngram_size = 2;
    return all;
}

void check_same(const Generated& one, const Generated& other) {
    CHECK(one.token_ids == other.token_ids);
    for (size_t i = 0; i < one.logprobs.size(); ++i) {
        CHECK(one.logprobs[i].chosen.token_id == other.logprobs[i].chosen.token_id);
        CHECK(one.logprobs[i].chosen.logprob == other.logprobs[i].chosen.logprob);
        CHECK(one.logprobs[i].rank == other.logprobs[i].rank);
    }
}

void check_drafts(const DeviceChoice& device) {
    Steps steps(device);
    const auto none = [](const std::vector<int32_t>&) { return DraftTokens(); };
    for (const SamplingParams& sampling : many_params()) {
        const Generated plain = generate(steps, sampling, none);
        CHECK(plain.num_steps == kTokens);
        const auto with = [&](size_t count, size_t wrong_each) {
            return generate(steps, sampling, next_of(plain.token_ids, count, wrong_each));
        };
        const Generated right = with(4, 1000);
        check_same(plain, right);
        CHECK(right.num_steps == 4);  // 1, then 5, 5 and 1
        const Generated wrong = with(3, 1);
        check_same(plain, wrong);
        CHECK(wrong.num_steps == kTokens);
        check_same(plain, with(3, 3));
        // More rows than logits exist of at one time.
        check_same(plain, with(static_cast<size_t>(kTokens), 7));
    }
}

void check_masks(const DeviceChoice& device) {
    Steps steps(device);
    const size_t words = (static_cast<size_t>(steps.vocab()) + 31) / 32;
    for (const float temperature : {0.0f, 1.0f}) {
        BatchPlan plan = steps.prefill(0, params_of(temperature));
        std::vector<uint32_t> mask(words, 0);
        mask[2] = 1u << 5;
        plan.extras.push_back({.entry = 0, .drafts = {}, .token_mask = mask});
        const SequenceStep first = steps.worker.execute(plan).sequences[0];
        REQUIRE(first.token_ids == std::vector<int32_t>{69});
        CHECK(first.logprobs[0].top[0].logprob >= first.logprobs[0].chosen.logprob);
        // The draft 33 is what the first row may choose; the second row may choose 64 alone.
        plan = steps.decode(0, 4, {{33, 34}, {}});
        mask.assign(3 * words, 0);
        mask[1] = 1u << 1;
        mask[words + 2] = 1u;
        mask[2 * words] = 1u;
        plan.extras[0].token_mask = mask;
        const StepResult second = steps.worker.execute(plan);
        CHECK(second.sequences[0].token_ids == std::vector<int32_t>{33, 64});
        CHECK(second.extras[0].accepted_rows == std::vector<int32_t>{1});
        steps.remove(0);
    }
}

}  // namespace

TEST_CASE("right and wrong drafts give the tokens and logprobs of a run without drafts") {
    check_drafts({});
}

TEST_CASE("a tree gives the tokens and logprobs of a run without drafts, along one path") {
    Steps steps;
    const auto none = [](const std::vector<int32_t>&) { return DraftTokens(); };
    for (const SamplingParams& sampling : many_params()) {
        const Generated plain = generate(steps, sampling, none);
        for (const int32_t others : {1, 2, 5}) {
            const Generated right = generate(steps, sampling, tree_of(plain.token_ids, 4, others));
            check_same(plain, right);
            CHECK(right.num_steps == 4);
        }
        std::vector<int32_t> half = plain.token_ids;
        for (size_t i = 2; i < half.size(); i += 3) half[i] += 7;
        check_same(plain, generate(steps, sampling, tree_of(half, 5, 2)));
    }
}

TEST_CASE("rows of a tree have masks of their own") {
    Steps steps;
    const size_t words = (static_cast<size_t>(steps.vocab()) + 31) / 32;
    steps.worker.execute(steps.prefill(0, params_of(0.0f)));
    // 33 is chosen, of rows 1 and 2 the second; behind it 64, which is row 3.
    BatchPlan plan = steps.decode(0, 4, {{32, 33, 64}, {0, 0, 2}});
    std::vector<uint32_t> mask(4 * words, 0);
    mask[1] = 1u << 1;
    mask[2 * words + 2] = 1u;
    mask[3 * words] = 1u << 3;
    plan.extras[0].token_mask = mask;
    const StepResult result = steps.worker.execute(plan);
    CHECK(result.sequences[0].token_ids == std::vector<int32_t>{33, 64, 3});
    CHECK(result.extras[0].accepted_rows == std::vector<int32_t>{2, 3});
}

TEST_CASE("chains longer than the rows of logits at one time are verified across them") {
    Steps steps;
    steps.worker.execute(steps.prefill(0, params_of(0.0f)));
    const std::vector<int32_t> many(40, 5);
    const StepResult result = steps.worker.execute(steps.decode(0, 4, {many, {}}));
    CHECK(result.sequences[0].token_ids.size() == result.extras[0].accepted_rows.size() + 1);
}

TEST_CASE("a token mask restricts the choice, and each draft row has its own") { check_masks({}); }

TEST_CASE("a mask that allows nothing is the fault of its sequence") {
    Steps steps;
    BatchPlan plan = steps.prefill(0, params_of(0.0f));
    const std::vector<uint32_t> mask((static_cast<size_t>(steps.vocab()) + 31) / 32, 0);
    plan.extras.push_back({.entry = 0, .drafts = {}, .token_mask = mask});
    const SequenceStep step = steps.worker.execute(plan).sequences[0];
    REQUIRE(step.fault);
    CHECK(step.token_ids.empty());
}

TEST_CASE("a sequence with an adapter gets a fault, and the others their tokens") {
    Steps steps;
    BatchPlan plan = steps.prefill(0, params_of(0.0f));
    const BatchPlan other = steps.prefill(1, params_of(0.0f));
    plan.added[0].adapter = 2;
    plan.added.push_back(other.added[0]);
    plan.entries.push_back(other.entries[0]);
    const StepResult result = steps.worker.execute(plan);
    REQUIRE(result.sequences[0].fault);
    CHECK(result.sequences[0].fault->message.find("adapter 2") != std::string::npos);
    CHECK(result.sequences[0].token_ids.empty());
    CHECK_FALSE(result.sequences[1].fault);
    CHECK(result.sequences[1].token_ids.size() == 1);
}

TEST_CASE("three steps in flight give what they give one after another") {
    Steps apart;
    std::vector<std::vector<int32_t>> expected;
    for (SequenceId sequence = 0; sequence < 3; ++sequence) {
        const BatchPlan plan = apart.prefill(sequence, params_of(1.0f));
        expected.push_back(apart.worker.execute(plan).sequences[0].token_ids);
    }
    Steps steps;
    for (SequenceId sequence = 0; sequence < 3; ++sequence) {
        steps.worker.begin(steps.prefill(sequence, params_of(1.0f)));
    }
    for (uint64_t number = 1; number <= 3; ++number) {
        const StepResult result = steps.worker.finish();
        CHECK(result.plan_number == number);
        CHECK(result.sequences[0].token_ids == expected[number - 1]);
    }
    steps.worker.begin(steps.decode(0, 4));
    steps.worker.reset();
    CHECK_THROWS_AS(steps.worker.finish(), Error);
}

namespace {

// What a plan says of a model whose headers alone were read.
size_t planned_scratch(const DeviceChoice& device) {
    ModelLoadOptions options = load_options(device);
    options.num_threads = 2;
    const ModelMetadata metadata = model_metadata(options);
    const WorkerConfig config = small_config();
    return Worker::scratch_bytes(
        *metadata.model,
        {config.max_num_batched_tokens, Worker::max_logit_rows(config.max_num_seqs),
         metadata.num_threads, metadata.device, metadata.activations});
}

// Steps with logprobs and changed scores, which take more than others.
void check_scratch(const DeviceChoice& device) {
    Steps steps(device);
    const ScratchArena& scratch = steps.worker.scratch();
    CHECK(scratch.reserved_bytes() == planned_scratch(device));
    SamplingParams sampling = params_of(1.0f);
    sampling.logit_bias = {{5, 1.0f}};
    steps.worker.execute(steps.prefill(0, sampling));
    steps.worker.execute(steps.decode(0, 4));
    CHECK(scratch.peak_bytes() > 0);
    CHECK(scratch.peak_bytes() <= scratch.reserved_bytes());
    CHECK(scratch.num_growths() == 0);
}

}  // namespace

TEST_CASE("a worker reserves the scratch that was planned from headers, and steps keep to it") {
    check_scratch({});
}

#ifdef NVLLM_TEST_EMULATED
namespace {

const DeviceChoice kEmulated{std::string(NVLLM_TEST_MODULES) + "/libnanovllm_cuda_emulated.so", 0};

}  // namespace

TEST_CASE("scratch of a device is planned from headers alone too") { check_scratch(kEmulated); }

TEST_CASE("a device verifies drafts and applies masks as the host does") {
    // Under a sanitizer each step takes seconds there; with masks some drafts are verified as well.
    if (!test::kSanitized) check_drafts(kEmulated);
    check_masks(kEmulated);
}

TEST_CASE("steps in flight on a device compute the tokens that steps before them choose") {
    SamplingParams sampling = params_of(1.0f);
    std::vector<int32_t> expected;
    {
        Steps apart(kEmulated);
        expected = apart.worker.execute(apart.prefill(0, sampling)).sequences[0].token_ids;
        for (int32_t first = 4; first < 8; ++first) {
            const StepResult result = apart.worker.execute(apart.decode(0, first));
            expected.push_back(result.sequences[0].token_ids.at(0));
        }
    }
    Steps steps(kEmulated);
    steps.worker.begin(steps.prefill(0, sampling));
    for (int32_t first = 4; first < 7; ++first) steps.worker.begin(steps.decode(0, first));
    std::vector<int32_t> tokens;
    const auto finish = [&] {
        tokens.push_back(steps.worker.finish().sequences[0].token_ids.at(0));
    };
    finish();
    steps.worker.begin(steps.decode(0, 7));
    for (int i = 0; i < 4; ++i) finish();
    CHECK(tokens == expected);
}
#endif
