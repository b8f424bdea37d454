// Drafts of a worker's model or head: what each would say by itself, whatever the steps, blocks and
// moves are.
#include "lib/execute/propose/draft_runner.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>

#include "kernels/host/thread_pool.h"
#include "lib/decode/sampler.h"
#include "lib/execute/propose/head_proposer.h"
#include "lib/execute/propose/proposer_methods.h"
#include "lib/execute/worker.h"
#include "lib/model/drafts/draft_head_loader.h"
#include "lib/model/registry.h"
#include "tests/lib/checkpoint/temporary_folder.h"
#include "tests/lib/model/drafts/draft_driver.h"
#include "tests/lib/model/driver.h"
#include "tests/lib/model/reference.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

namespace fs = std::filesystem;

using Tokens = std::vector<int32_t>;

// Small blocks, so that drafts reach past the blocks of their sequence.
constexpr int32_t kBlockSize = 4;
constexpr int32_t kDrafts = 6;

struct Case {
    const char* method;
    fs::path target;
    fs::path drafts;
};

// Of a directory with a config alone the weights are random.
ModelLoadOptions options_of(const fs::path& directory, ThreadPool& threads) {
    ModelLoadOptions options;
    options.directory = directory;
    if (!fs::exists(directory / "model.safetensors")) options.load_format = LoadFormat::dummy;
    options.dtype = DType::f32;
    options.threads = &threads;
    return options;
}

std::unique_ptr<ModelProposer> load_proposer(const Case& where, const ModelConfig& target,
                                             ThreadPool& threads) {
    ProposerSetup setup;
    setup.method = where.method;
    setup.model = options_of(where.drafts, threads);
    setup.target_directory = where.target;
    return make_proposer(setup, target, ProposerUse::runs);
}

WorkerConfig small_config(int32_t max_num_batched_tokens) {
    WorkerConfig config;
    config.max_num_batched_tokens = max_num_batched_tokens;
    config.block_size = kBlockSize;
    config.num_blocks = {64};
    config.num_host_blocks = {32};
    config.max_num_seqs = 3;
    return config;
}

// A sequence as a scheduler knows it, with no block more than its computed positions need.
struct Text {
    SequenceId id = 0;
    Tokens tokens;
    std::vector<int32_t> table;
    int32_t computed = 0;
    Tokens drafts;
    std::vector<int32_t> parents = {};  // of a tree
};

class Steps {
  public:
    explicit Steps(const Case& where, int32_t max_num_batched_tokens = 64,
                   DraftShape shape = {kDrafts, 1})
        : model_(load_model(options_of(where.target, threads_))), config_(model_->config()) {
        auto proposer = load_proposer(where, config_, threads_);
        worker_.emplace(std::move(model_), small_config(max_num_batched_tokens), threads_,
                        ComputeDevice{}, std::move(proposer), shape);
    }

    Worker& worker() { return *worker_; }
    ThreadPool& threads() { return threads_; }

    // `computed` of its tokens lie in `table`.
    Text add(Tokens tokens, std::vector<int32_t> table = {}, int32_t computed = 0) {
        Text text{++last_id_, std::move(tokens), std::move(table), computed, {}};
        AddedSequence& added = plan_.added.emplace_back();
        added.sequence = text.id;
        added.token_ids = text.tokens;
        added.num_prompt_tokens = static_cast<int32_t>(text.tokens.size());
        added.sampling.temperature = 0.0f;
        added.sampling.seed = 1;
        added.block_tables = {text.table};
        return text;
    }

    // Computes the next `count` tokens and the drafts behind the last one; 0: all that are left.
    void compute(Text& text, int32_t num_wanted, int32_t count = 0) {
        const auto known = static_cast<int32_t>(text.tokens.size());
        const bool ends = count == 0 || text.computed + count == known;
        PlanEntry& entry = plan_.entries.emplace_back();
        entry.sequence = text.id;
        entry.first = text.computed;
        entry.count = ends ? known - text.computed : count;
        if (ends) {
            entry.output = OutputKind::sample;
            entry.count += static_cast<int32_t>(text.drafts.size());
            plan_.extras.push_back({.entry = static_cast<uint32_t>(plan_.entries.size()) - 1,
                                    .drafts = {text.drafts, text.parents},
                                    .token_mask = {},
                                    .num_next_drafts = num_wanted});
        }
        entry.new_blocks = {{}};
        while (std::ssize(text.table) * kBlockSize < entry.first + entry.count) {
            text.table.push_back(next_block_);
            entry.new_blocks[0].push_back(next_block_);
            next_block_ = (next_block_ + 5) % 64;
        }
        planned_.push_back(&text);
    }

    BatchPlan& plan() { return plan_; }

    StepResult run() {
        plan_.number = ++number_;
        StepResult result = worker_->execute(plan_);
        for (size_t i = 0; i < planned_.size(); ++i) {
            Text& text = *planned_[i];
            const Tokens& chosen = result.sequences[i].token_ids;
            REQUIRE_FALSE(result.sequences[i].fault);
            text.computed += plan_.entries[i].count;
            text.tokens.insert(text.tokens.end(), chosen.begin(), chosen.end());
            // Rejected drafts are computed again.
            if (!chosen.empty()) text.computed = static_cast<int32_t>(text.tokens.size()) - 1;
            text.drafts.clear();
            text.parents.clear();
        }
        for (const StepExtras& extras : result.extras) {
            planned_[extras.entry]->drafts = extras.next_drafts.token_ids;
            planned_[extras.entry]->parents = extras.next_drafts.parents;
        }
        plan_ = {};
        planned_.clear();
        return result;
    }

  private:
    ThreadPool threads_{2};
    std::unique_ptr<Model> model_;
    ModelConfig config_;
    std::optional<Worker> worker_;
    BatchPlan plan_;
    std::vector<Text*> planned_;
    uint64_t number_ = 0;
    SequenceId last_id_ = 0;
    int32_t next_block_ = 0;
};

// Greedy tokens after a text, by the method without a worker.
using Reference = std::function<Tokens(const Tokens& tokens, int32_t count)>;

// The likeliest tokens after a text and what is drafted behind it, best first, by the method
// without a worker.
using Following = std::function<std::vector<TokenLogprob>(const Tokens& tokens, const Tokens& path,
                                                          int32_t count)>;

std::vector<TokenLogprob> best_of(const std::vector<float>& logits, size_t rows, int32_t count) {
    SamplerScratch scratch;
    std::vector<TokenLogprob> best;
    const size_t columns = logits.size() / rows;
    CHECK_FALSE(find_candidates(std::span(logits).last(columns), count, scratch, best));
    return best;
}

Following following_of_model(const Case& where, ThreadPool& threads) {
    std::shared_ptr<Model> model = load_model(options_of(where.drafts, threads));
    return [model, &threads](const Tokens& tokens, const Tokens& path, int32_t count) {
        test::Driver driver(*model, threads, DType::f32, 16, 0, 64);
        Tokens all = tokens;
        all.insert(all.end(), path.begin(), path.end());
        return best_of(driver.logits_of(all, 0), all.size(), count);
    };
}

// Rows of the target's states join the tokens after them; then the head goes on with its own.
Following following_of_head(const Case& where, ThreadPool& threads) {
    std::shared_ptr<Model> target = load_model(options_of(where.target, threads));
    std::shared_ptr<DraftHead> head = load_draft_head({.directory = where.drafts,
                                                       .target_directory = where.target,
                                                       .dtype = DType::f32,
                                                       .threads = &threads});
    return [target, head, &threads](const Tokens& tokens, const Tokens& path, int32_t count) {
        test::Driver states(*target, threads, DType::f32, 16, 0, 64);
        const Tokens before(tokens.begin(), tokens.end() - 1);
        const Tokens after(tokens.begin() + 1, tokens.end());
        const auto layers =
            aux_layers(head->config(), target->config().num_layers, AuxLayerNumbering::layers_done);
        test::DraftDriver driver(*head, threads);
        test::DraftRows rows =
            driver.step(after, head->config().fuses() ? states.aux_hidden_of(before, layers)
                                                      : states.hidden_of(before));
        size_t num_rows = after.size();
        for (const int32_t& token : path) {
            const auto width = static_cast<std::ptrdiff_t>(rows.states.size() / num_rows);
            const std::vector<float> last(rows.states.end() - width, rows.states.end());
            rows = driver.draft({&token, 1}, last);
            num_rows = 1;
        }
        std::vector<TokenLogprob> best = best_of(rows.logits, num_rows, count);
        for (TokenLogprob& one : best) one.token_id = head->target_id(one.token_id);
        return best;
    };
}

Following following_of(const Case& where, ThreadPool& threads) {
    return std::string(where.method) == "draft_model" ? following_of_model(where, threads)
                                                      : following_of_head(where, threads);
}

// EAGLE-2's tree as it is published: the best of each level go on, and the best of all stay.
DraftTokens tree_after(const Tokens& tokens, const Following& following, DraftShape shape,
                       int32_t count) {
    struct Node {
        Tokens path;
        size_t parent;
        float logprob;
    };
    std::vector<Node> nodes{{{}, 0, 0.0f}};
    std::vector<size_t> level{0};
    for (int32_t depth = 0; depth < shape.depth; ++depth) {
        std::vector<size_t> next;
        for (const size_t parent : level) {
            const Tokens path = nodes[parent].path;
            for (const TokenLogprob& child : following(tokens, path, shape.width)) {
                Node node{path, parent, nodes[parent].logprob + child.logprob};
                node.path.push_back(child.token_id);
                next.push_back(nodes.size());
                nodes.push_back(node);
            }
        }
        std::ranges::stable_sort(next, std::ranges::greater{},
                                 [&](size_t node) { return nodes[node].logprob; });
        next.resize(std::min(next.size(), static_cast<size_t>(shape.width)));
        level = next;
    }
    std::vector<size_t> order;
    for (size_t node = 1; node < nodes.size(); ++node) order.push_back(node);
    std::ranges::stable_sort(order, std::ranges::greater{},
                             [&](size_t node) { return nodes[node].logprob; });
    order.resize(std::min(order.size(), static_cast<size_t>(count)));
    DraftTokens drafts;
    for (const size_t node : order) {
        const auto parent = std::ranges::find(order, nodes[node].parent);
        drafts.token_ids.push_back(nodes[node].path.back());
        drafts.parents.push_back(
            parent == order.end() ? 0 : static_cast<int32_t>(parent - order.begin()) + 1);
    }
    return drafts;
}

// A model with the hidden size and the vocabulary of the fixture's next-token layer.
fs::path narrow_target() {
    static const test::TemporaryFolder folder;
    folder.write("config.json", R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "vocab_size": 128,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
        "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
        "torch_dtype": "float32"})");
    return folder.path();
}

std::vector<Case> cases() {
    const fs::path llama = test::source_path("tests/fixtures/families/llama");
    const fs::path heads = test::source_path("tests/fixtures/drafts");
    return {
        {"draft_model", test::source_path("models/demo"), test::source_path("models/demo-draft")},
        {"eagle", llama, heads / "eagle_two_layers"},
        {"eagle3", llama, heads / "eagle3_norms"},
        {"eagle3", llama, heads / "eagle3_speculators"},
        {"eagle3", llama, heads / "eagle3_last_state"},
        {"mtp", narrow_target(), heads / "mtp_mimo"}};
}

Reference reference_of(const Case& where, ThreadPool& threads) {
    return [following = following_of(where, threads)](const Tokens& tokens, int32_t count) {
        Tokens drafts;
        while (std::ssize(drafts) < count) {
            drafts.push_back(following(tokens, drafts, 1).front().token_id);
        }
        return drafts;
    };
}

Tokens prompt_of(int32_t length, int32_t seed) {
    Tokens tokens;
    for (int32_t i = 0; i < length; ++i) tokens.push_back(6 + (seed * 31 + i * i * 7) % 100);
    return tokens;
}

TEST_CASE("drafts are what the model or head says by itself") {
    for (const Case& where : cases()) {
        CAPTURE(where.drafts.string());
        Steps steps(where);
        const Reference expected = reference_of(where, steps.threads());
        // One in chunks that are no blocks, one in one step; they want different numbers.
        Text one = steps.add(prompt_of(11, 1));
        for (int chunk = 0; chunk < 3; ++chunk) {
            steps.compute(one, 0, 3);
            CHECK(steps.run().extras.empty());
        }
        Text two = steps.add(prompt_of(7, 2));
        steps.compute(one, kDrafts);
        steps.compute(two, 1);
        steps.run();
        for (int step = 0; step < 7; ++step) {
            CAPTURE(step);
            const int32_t wanted_one = step == 3 ? 0 : kDrafts - step % 2;
            const int32_t wanted_two = 1 + step % 3;
            if (!one.drafts.empty()) {
                CHECK(one.drafts == expected(one.tokens, std::ssize(one.drafts)));
            }
            CHECK(two.drafts == expected(two.tokens, std::ssize(two.drafts)));
            steps.compute(two, wanted_two);
            steps.compute(one, wanted_one);
            const StepResult result = steps.run();
            CHECK(std::ssize(one.drafts) == wanted_one);
            CHECK(std::ssize(two.drafts) == wanted_two);
            CHECK(result.draft_ms > 0.0);
        }
    }
}

TEST_CASE("trees are those of the model or head by itself") {
    constexpr DraftShape shape{3, 3};
    for (const Case& where : cases()) {
        CAPTURE(where.drafts.string());
        Steps steps(where, 64, shape);
        const Following following = following_of(where, steps.threads());
        Text one = steps.add(prompt_of(9, 1));
        Text two = steps.add(prompt_of(6, 2));
        steps.compute(one, 7);
        steps.compute(two, 1);
        steps.run();
        for (int step = 0; step < 4; ++step) {
            CAPTURE(step);
            for (const Text* text : {&one, &two}) {
                const auto count = static_cast<int32_t>(text->drafts.size());
                REQUIRE(count > 0);
                CHECK(DraftTokens{text->drafts, text->parents} ==
                      tree_after(text->tokens, following, shape, count));
            }
            steps.compute(two, 10 - 3 * step);
            steps.compute(one, 8 + step);
            steps.run();
            CHECK(std::ssize(two.drafts) == 10 - 3 * step);
        }
    }
}

TEST_CASE("right drafts are accepted, and the next ones follow them") {
    // A model that drafts for itself is always right.
    const fs::path model = test::source_path("models/demo-draft");
    Steps steps({"draft_model", model, model});
    Text text = steps.add(prompt_of(9, 3));
    steps.compute(text, kDrafts);
    steps.run();
    for (int step = 0; step < 5; ++step) {
        const Tokens drafts = text.drafts;
        REQUIRE(drafts.size() == kDrafts);
        steps.compute(text, kDrafts);
        const StepResult result = steps.run();
        CHECK(result.sequences[0].token_ids.size() == kDrafts + 1);
        CHECK(std::ranges::equal(drafts, std::span(result.sequences[0].token_ids).first(kDrafts)));
    }
}

TEST_CASE("the draft's keys and values go where the blocks go") {
    for (const Case& where : cases()) {
        CAPTURE(where.drafts.string());
        Steps steps(where);
        const Reference expected = reference_of(where, steps.threads());
        Text text = steps.add(prompt_of(11, 4));
        steps.compute(text, 0);
        steps.run();
        // Another sequence begins with its first two blocks.
        Tokens shared(text.tokens.begin(), text.tokens.begin() + 8);
        shared.insert(shared.end(), {text.tokens[8], 9, 17});
        Text sharing = steps.add(shared, {text.table[0], text.table[1]}, 8);
        steps.compute(sharing, kDrafts);
        steps.run();
        CHECK(sharing.drafts == expected(sharing.tokens, kDrafts));
        // Moved within the device.
        steps.plan().moves = {{0, text.table[1], 63}};
        steps.plan().table_changes = {{text.id, 0, 1, 63}};
        text.table[1] = 63;
        steps.compute(text, kDrafts);
        steps.run();
        CHECK(text.drafts == expected(text.tokens, kDrafts));
        // To the host and back, to other blocks.
        const auto blocks = static_cast<int32_t>(text.table.size());
        steps.plan().removed = {text.id};
        std::vector<SwapMove> back;
        std::vector<int32_t> table;
        for (int32_t i = 0; i < blocks; ++i) {
            steps.plan().swaps_out.push_back({0, text.table[static_cast<size_t>(i)], i, i});
            table.push_back(50 + i);
            back.push_back({0, 50 + i, i, i});
        }
        const StepResult swapped = steps.run();
        CHECK(swapped.swapped_bytes >
              static_cast<uint64_t>(blocks) * kBlockSize *
                  static_cast<uint64_t>(
                      steps.worker().model().kv_groups()[0].bytes_per_token(DType::f32)));
        Text again = steps.add(text.tokens, table, text.computed);
        steps.plan().swaps_in = back;
        steps.compute(again, kDrafts);
        steps.run();
        CHECK(again.drafts == expected(again.tokens, kDrafts));
    }
}

TEST_CASE("a draft model is idle without drafts, and catches up in steps of bounded size") {
    const fs::path model = test::source_path("models/demo-draft");
    const Case where{"draft_model", model, model};
    Steps steps(where, 8);
    const Reference expected = reference_of(where, steps.threads());
    Text text = steps.add(prompt_of(21, 5));
    for (int chunk = 0; chunk < 3; ++chunk) {
        steps.compute(text, 0, 7);
        CHECK(steps.run().draft_ms == 0.0);
    }
    // 8 rows in each of three steps, and what is left, with the new ones, in the fourth.
    for (int step = 0; step < 3; ++step) {
        steps.compute(text, kDrafts);
        CHECK(steps.run().draft_ms > 0.0);
        CHECK(text.drafts.empty());
    }
    steps.compute(text, kDrafts);
    steps.run();
    CHECK(text.drafts == expected(text.tokens, kDrafts));
    // A sequence that begins with its blocks finds their rows as well.
    Tokens shared(text.tokens.begin(), text.tokens.begin() + 20);
    shared.push_back(9);
    Text sharing = steps.add(shared, {text.table.begin(), text.table.begin() + 5}, 20);
    steps.compute(sharing, kDrafts);
    steps.run();
    CHECK(sharing.drafts == expected(sharing.tokens, kDrafts));
}

TEST_CASE("stored heads say their stored tokens through a worker") {
    const fs::path heads = test::shared_data("drafts");
    const fs::path stories = test::shared_data("models/stories260k");
    if (heads.empty() || stories.empty()) return;
    for (const Case& where :
         {Case{"eagle", stories, heads / "stories260k-eagle"},
          Case{"eagle3", stories, heads / "stories260k-eagle3"},
          Case{"eagle3", stories, heads / "stories260k-eagle3-speculators"},
          Case{"eagle3", test::source_path("models/demo"), heads / "demo-eagle3-narrow"}}) {
        CAPTURE(where.drafts.string());
        const SafetensorsFile file(where.drafts / "case.safetensors");
        const auto ids = [&](const char* name) {
            const auto wide = test::values_of<int64_t>(file, name);
            return Tokens(wide.begin(), wide.end());
        };
        Steps steps(where);
        Text text = steps.add(ids("prompt_ids"));
        steps.compute(text, 4);
        CHECK(steps.run().sequences[0].token_ids == ids("target_next"));
        CHECK(text.drafts == ids("chain_ids"));
    }
}

TEST_CASE("a model with a next-token layer drafts for itself") {
    const fs::path mimo = test::shared_data("drafts/mimo-mtp");
    if (mimo.empty()) return;
    const Case where{"mtp", mimo, mimo};
    const SafetensorsFile file(mimo / "case.safetensors");
    const auto wide = test::values_of<int64_t>(file, "prompt_ids");
    const auto next = test::values_of<int64_t>(file, "target_next");
    Steps steps(where);
    Text text = steps.add({wide.begin(), wide.end()});
    steps.compute(text, kDrafts);
    CHECK(steps.run().sequences[0].token_ids.at(0) == next.at(0));
    const auto logits = test::values_of<float>(file, "logits");
    CHECK(text.drafts.at(0) == best_of(logits, wide.size(), 1).front().token_id);
    CHECK(text.drafts == reference_of(where, steps.threads())(text.tokens, kDrafts));
}

TEST_CASE("scratch for the largest step is there from the beginning") {
    for (const Case& where : cases()) {
        ThreadPool threads(2);
        ProposerSetup setup;
        setup.method = where.method;
        setup.model = options_of(where.drafts, threads);
        setup.target_directory = where.target;
        const ModelConfig target = read_model_config(where.target);
        const auto planned = make_proposer(setup, target, ProposerUse::plans);
        const auto loaded = make_proposer(setup, target, ProposerUse::runs);
        const LargestStep step{64, 16, 2, {}, DType::f32};
        const size_t bytes = DraftRunner::scratch_bytes(*planned, target.hidden_size, step, 4, 1);
        CHECK(bytes > 0);
        CHECK(bytes == DraftRunner::scratch_bytes(*loaded, target.hidden_size, step, 4, 1));
        CHECK(bytes < DraftRunner::scratch_bytes(*loaded, target.hidden_size, step, 4, 40));
        CHECK(planned->weight_bytes() == loaded->weight_bytes());
    }
}

TEST_CASE("a head of another method, or of another target, is refused by name") {
    ThreadPool threads(1);
    const fs::path heads = test::source_path("tests/fixtures/drafts");
    const auto fault = [&](const char* method, const fs::path& folder, const fs::path& target) {
        try {
            load_proposer({method, target, folder}, read_model_config(target), threads);
        } catch (const Error& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    const fs::path llama = test::source_path("tests/fixtures/families/llama");
    CHECK(fault("eagle", heads / "eagle3_norms", llama).find("EAGLE-3") != std::string::npos);
    CHECK(fault("eagle", heads / "eagle_bias", test::source_path("models/demo"))
              .find("hidden size 64") != std::string::npos);
    CHECK(fault("mtp", heads / "mtp_mimo", llama).find("hidden size 32") != std::string::npos);
    CHECK(proposer_method_of(heads / "eagle_bias") == "eagle");
    CHECK(proposer_method_of(heads / "eagle3_norms") == "eagle3");
    CHECK(proposer_method_of(llama) == "draft_model");
}

}  // namespace
}  // namespace nvllm
