// Beam search by the scheduler: the same hypotheses whatever else happens, and blocks shared.
#include <doctest/doctest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "tests/lib/schedule/simulation.h"

namespace nvllm {
namespace {

Request beams(RequestId id, int32_t num_prompt, int32_t max_tokens, int32_t width) {
    Request request = make_request(
        id, counting_tokens(1 + static_cast<int32_t>(id % 3) * 7, num_prompt), max_tokens);
    request.sampling.use_beam_search = true;
    request.sampling.n = width;
    request.sampling.length_penalty = static_cast<float>(id % 3) * 0.5f;
    request.sampling.early_stopping = static_cast<EarlyStopping>(id % 3);
    return request;
}

// The search without a scheduler.
std::vector<BeamHypothesis> expected_hypotheses(const Request& request, const TokenRule& rule) {
    BeamSearch search(request.sampling, {kEndToken});
    std::vector<std::vector<int32_t>> generated(1);
    while (true) {
        std::vector<std::vector<TokenLogprob>> candidates;
        std::vector<std::span<const int32_t>> spans;
        for (const auto& tokens : generated) {
            std::vector<int32_t> all = request.prompt_token_ids;
            all.insert(all.end(), tokens.begin(), tokens.end());
            candidates.push_back(expected_candidates(
                prefix_digests(all).back(), BeamSearch::num_candidates(request.sampling, 1), rule));
            spans.emplace_back(tokens);
        }
        const std::vector<BeamChoice> choices = search.advance(candidates, spans);
        if (choices.empty()) return search.hypotheses();
        std::vector<std::vector<int32_t>> next;
        for (const BeamChoice& choice : choices) {
            next.push_back(generated[choice.parent]);
            next.back().push_back(choice.token_id);
        }
        generated = std::move(next);
    }
}

struct Searches {
    Searches(const SchedulerConfig& config, const CacheConfig& cache)
        : simulation(config, cache, TokenRule{.vocab_size = 40}) {
        for (const CacheGroupConfig& group : cache.groups) full_sizes.push_back(group.num_blocks);
    }

    void collect() {
        for (BeamResult& result : simulation.scheduler.take_beam_results()) {
            const Request& request = requests.at(result.request);
            const auto expected = expected_hypotheses(request, simulation.rule);
            ++num_results;
            bool same = expected.size() == result.hypotheses.size();
            for (size_t i = 0; same && i < expected.size(); ++i) {
                same = expected[i].token_ids == result.hypotheses[i].token_ids &&
                       expected[i].score == result.hypotheses[i].score;
            }
            num_wrong += !same;
        }
    }
    // To three quarters of the blocks at least, as far as active sequences allow.
    bool resize(uint64_t drawn) {
        std::vector<int32_t> sizes;
        for (const int32_t full : full_sizes) {
            sizes.push_back(full - static_cast<int32_t>(drawn % static_cast<uint64_t>(full / 4)));
        }
        try {
            return simulation.scheduler.resize_cache(sizes, simulation.now_s);
        } catch (const Error&) {
            return false;
        }
    }
    void add(const Request& request) {
        requests.emplace(request.id, request);
        const auto ids = simulation.scheduler.add(request);
        REQUIRE(ids.ok());
        for (const SequenceId id : *ids) simulation.requests.emplace(id, request);
    }

    Simulation simulation;
    std::map<RequestId, Request> requests;
    std::vector<int32_t> full_sizes;  // blocks of each group at first
    int64_t num_results = 0;
    int64_t num_wrong = 0;
};

SchedulerConfig beam_config(const std::string& policy, int32_t depth) {
    SchedulerConfig config = small_config();
    config.policy = policy;
    config.pipeline_depth = depth;
    config.max_num_seqs = 16;
    config.max_model_len = 64;
    return config;
}

TEST_CASE("beams: the hypotheses are those of the search alone, in any pool and company") {
    int64_t preemptions = 0;
    int64_t num_resizes = 0;
    for (const SchedulingPolicy& policy : scheduling_policies()) {
        for (const int32_t num_blocks : {33, 60, 400}) {
            for (const int32_t depth : {1, 2}) {
                CAPTURE(std::string(policy.name));
                CAPTURE(num_blocks);
                CAPTURE(depth);
                CacheConfig cache = small_cache(num_blocks);
                cache.enable_prefix_caching = num_blocks != 60;
                cache.groups[0].num_host_blocks = 30;
                if (num_blocks == 400) cache.groups.push_back({200, 9});
                Searches searches(beam_config(policy.name, depth), cache);
                std::mt19937 random(static_cast<unsigned>(num_blocks + depth));
                for (RequestId id = 1; id <= 20; ++id) {
                    const auto draw = [&](int below) {
                        return static_cast<int32_t>(random() % static_cast<unsigned>(below));
                    };
                    if (id % 4 == 0) {
                        Request plain = make_request(id, counting_tokens(3, 1 + draw(12)), 9);
                        searches.requests.emplace(id, plain);
                        searches.simulation.add(plain);
                    } else {
                        searches.add(beams(id, 1 + draw(12), 8 + draw(13), 2 + draw(3)));
                    }
                }
                for (int i = 0; i < 20000 && searches.simulation.scheduler.has_work(); ++i) {
                    searches.simulation.plan();
                    if (random() % 3 != 0) searches.simulation.commit();
                    searches.collect();
                    if (i % 16 == 0) searches.simulation.scheduler.check_integrity();
                    if (random() % 8 == 0) num_resizes += searches.resize(random());
                    if (random() % 400 == 0) {
                        searches.simulation.scheduler.reset_worker();
                        searches.simulation.results.clear();
                        searches.simulation.worker.restart();
                    }
                }
                CHECK(searches.num_results == 15);
                CHECK(searches.num_wrong == 0);
                CHECK(searches.simulation.worker.wrong == 0);
                CHECK(searches.simulation.scheduler.stats().stalled_steps == 0);
                CHECK_FALSE(searches.simulation.scheduler.has_work());
                searches.simulation.scheduler.check_integrity();
                CHECK(searches.simulation.cache.stats().blocks.used == 0);
                preemptions += searches.simulation.scheduler.stats().preemptions;
            }
        }
    }
    MESSAGE(preemptions, " preemptions, ", num_resizes, " resizes");
    CHECK(num_resizes > 100);
    CHECK(preemptions > 20);
}

TEST_CASE("beams: the prompt is computed and held once, whatever the width") {
    SchedulerConfig config = beam_config("fcfs", 1);
    config.max_num_batched_tokens = 256;
    config.max_model_len = 512;
    CacheConfig cache = small_cache(800);
    cache.enable_prefix_caching = false;
    Searches searches(config, cache);
    Request request = beams(1, 200, 20, 8);
    request.sampling.ignore_eos = true;
    request.sampling.early_stopping = EarlyStopping::never;
    searches.add(request);
    int32_t most_used = 0;
    while (searches.simulation.scheduler.has_work()) {
        searches.simulation.step();
        most_used = std::max(most_used, searches.simulation.cache.stats().blocks.used);
    }
    // One prompt of 50 blocks, and 8 tails of 20 tokens with a copied block each.
    CHECK(most_used <= 50 + 8 * 6);
    // Each beam computes one token a step; nothing twice.
    CHECK(searches.simulation.worker.computed_positions <= 200 + 8 * 20);
    CHECK(searches.simulation.worker.wrong == 0);
}

TEST_CASE("beams: cancelling or failing one ends all, and no block stays") {
    for (const bool failing : {false, true}) {
        Searches searches(beam_config("fcfs", 1), small_cache(200));
        searches.add(beams(1, 10, 30, 4));
        for (int i = 0; i < 6; ++i) searches.simulation.step();
        if (failing) {
            REQUIRE(searches.simulation.plan());
            searches.simulation.results.front().sequences[1].fault =
                Fault{ErrorKind::internal, "on purpose"};
            searches.simulation.commit();
        } else {
            CHECK(searches.simulation.scheduler.cancel(1).size() == 4);
        }
        CHECK_FALSE(searches.simulation.scheduler.has_work());
        searches.simulation.scheduler.check_integrity();
        CHECK(searches.simulation.cache.stats().blocks.used == 0);
    }
}

TEST_CASE("beams: what can never fit is refused with the number and the flag") {
    Searches searches(beam_config("fcfs", 1), small_cache(36));
    const auto wide = searches.simulation.scheduler.add(beams(1, 10, 8, 17));
    REQUIRE_FALSE(wide.ok());
    CHECK(wide.fault().message.find("--max-num-seqs") != std::string::npos);
    const auto long_ones = searches.simulation.scheduler.add(beams(2, 10, 50, 4));
    REQUIRE_FALSE(long_ones.ok());
    CHECK(long_ones.fault().kind == ErrorKind::does_not_fit);
}

}  // namespace
}  // namespace nvllm
