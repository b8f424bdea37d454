// The memory plan: known figures, what fits, and what is said when it does not.
#include "lib/execute/memory_budget.h"

#include <doctest/doctest.h>

using namespace nvllm;

namespace {

CacheLayout full_group(int32_t layers, int32_t kv_heads, int32_t head_dim, int64_t window = 0) {
    CacheLayout group;
    for (int32_t layer = 0; layer < layers; ++layer) group.layers.push_back(layer);
    group.kv_heads = kv_heads;
    group.head_dim = head_dim;
    group.window = window;
    return group;
}

MemoryRequest small_request() {
    MemoryRequest request;
    request.available_bytes = uint64_t{8} << 30;
    request.model_max_positions = 2048;
    request.max_num_seqs = 8;
    request.max_num_batched_tokens = 512;
    request.block_size = 16;
    request.kv_dtype = DType::f16;
    request.groups = {full_group(4, 2, 64)};
    return request;
}

}  // namespace

TEST_CASE("bytes per token of published shapes") {
    MemoryRequest request = small_request();
    request.available_bytes = uint64_t{200} << 30;
    request.groups = {full_group(32, 32, 128)};
    CHECK(make_memory_plan(request).kv_bytes_per_token == 524288);  // Llama-2-7B
    request.groups = {full_group(80, 8, 128)};
    CHECK(make_memory_plan(request).kv_bytes_per_token == 327680);  // Llama-2-70B
    request.kv_dtype = DType::f8_e4m3;
    CHECK(make_memory_plan(request).kv_bytes_per_token == 163840);
    request.kv_dtype = DType::i8;  // and a scale for each head of keys and of values
    CHECK(make_memory_plan(request).kv_bytes_per_token == 163840 + 80 * 8 * 2 * 4);
}

TEST_CASE("layers of a draft take their part of every block") {
    MemoryRequest request = small_request();
    request.groups = {full_group(4, 2, 64), full_group(2, 2, 64, 128)};
    request.kv_cache_bytes = uint64_t{40} << 20;
    request.swap_bytes = uint64_t{4} << 20;
    const MemoryPlan without = make_memory_plan(request);
    request.draft_bytes_per_token = {512, 0};
    const MemoryPlan with = make_memory_plan(request);
    CHECK(with.kv_bytes_per_token == without.kv_bytes_per_token + 512);
    CHECK(with.bytes_per_token(0) == without.bytes_per_token(0) + 512);
    CHECK(with.block_bytes() ==
          std::vector<uint64_t>{without.block_bytes()[0] + 512 * 16, without.block_bytes()[1]});
    CHECK(with.kv_bytes <= *request.kv_cache_bytes);
    CHECK(with.swap_bytes <= request.swap_bytes);
    CHECK(with.num_blocks[0] < without.num_blocks[0]);
}

TEST_CASE("what several share is divided, and flags are named with what all of them need") {
    MemoryRequest request = small_request();
    request.weight_bytes = uint64_t{1} << 30;
    request.limit_bytes = uint64_t{4} << 30;
    request.max_num_seqs = 10000;
    request.num_sharing = 2;
    request.num_replicas = 2;
    const MemoryPlan plan = plan_memory(request);
    CHECK(plan.num_replicas == 2);
    CHECK(plan.kv_budget_bytes == uint64_t{1} << 30);  // of 2 GiB
    request.limit_bytes.reset();
    request.max_model_len = 2048;
    request.kv_cache_bytes = uint64_t{4} << 20;
    const std::string shortage = plan_memory(request).shortage;
    CHECK(shortage.find("leaves 2.0 MiB to each of 2 that share it") != std::string::npos);
    CHECK(shortage.find("--kv-cache-memory-bytes 8388608 or more") != std::string::npos);
    request.kv_cache_bytes = 8388608;
    CHECK(plan_memory(request).shortage.empty());
}

TEST_CASE("no more blocks than all slots can use") {
    const MemoryPlan plan = make_memory_plan(small_request());
    CHECK(plan.max_model_len == 2048);
    CHECK(plan.num_blocks == std::vector<int32_t>{8 * 128});
    CHECK(plan.kv_tokens == 8 * 2048);
    CHECK(plan.kv_bytes == uint64_t{8} * 2048 * 2048);
    CHECK(plan.max_concurrency == doctest::Approx(8.0));
    CHECK(plan.notices.empty());
}

TEST_CASE("the smallest share of a cache holds one longest sequence in every group") {
    MemoryRequest request = small_request();
    request.groups = {full_group(4, 2, 64), full_group(2, 2, 64, 128)};
    request.kv_cache_bytes = uint64_t{40} << 20;
    const MemoryPlan plan = make_memory_plan(request);
    const auto blocks_left = [&](size_t group) {
        return static_cast<int32_t>(plan.smallest_share * plan.num_blocks[group]);
    };
    CHECK(blocks_left(0) >= 2048 / 16);
    CHECK(blocks_left(1) >= 128 / 16 + 1 + 512 / 16);
    CHECK(plan.smallest_share < 0.5);
    request.kv_cache_bytes = std::nullopt;
    request.max_blocks = 2048 / 16;
    CHECK(make_memory_plan(request).smallest_share == 1.0);
}

TEST_CASE("host blocks stand in the proportions of the device's") {
    MemoryRequest request = small_request();
    request.groups = {full_group(4, 2, 64), full_group(2, 2, 64, 128)};
    request.swap_bytes = uint64_t{8} << 20;
    const MemoryPlan plan = make_memory_plan(request);
    REQUIRE(plan.num_host_blocks.size() == 2);
    CHECK(plan.swap_bytes <= request.swap_bytes);
    CHECK(plan.swap_bytes > request.swap_bytes * 9 / 10);
    for (size_t group = 0; group < 2; ++group) {
        const double share = static_cast<double>(plan.num_host_blocks[group]) /
                             static_cast<double>(plan.num_blocks[group]);
        CHECK(share == doctest::Approx(static_cast<double>(request.swap_bytes) /
                                       static_cast<double>(plan.kv_bytes))
                           .epsilon(0.05));
    }
    request.swap_bytes = uint64_t{900} << 30;
    CHECK_THROWS_WITH_AS(make_memory_plan(request), doctest::Contains("lower --swap-space"), Error);
}

TEST_CASE("a given size is kept to") {
    MemoryRequest request = small_request();
    request.kv_cache_bytes = uint64_t{6} << 20;
    const MemoryPlan plan = make_memory_plan(request);
    CHECK(plan.kv_bytes <= *request.kv_cache_bytes);
    CHECK(plan.kv_bytes > *request.kv_cache_bytes * 9 / 10);
}

TEST_CASE("the context is cut to what fits, with a notice") {
    MemoryRequest request = small_request();
    request.kv_cache_bytes = 2048 * 1000;
    const MemoryPlan plan = make_memory_plan(request);
    CHECK(plan.max_model_len == 992);
    REQUIRE(plan.notices.size() == 1);
    CHECK(plan.notices[0].find("992") != std::string::npos);
}

TEST_CASE("a context that was asked for and does not fit is an error that names what does") {
    MemoryRequest request = small_request();
    request.kv_cache_bytes = 2048 * 1000;
    request.max_model_len = 2000;
    try {
        make_memory_plan(request);
        FAIL("expected an error");
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::does_not_fit);
        const std::string message = error.what();
        CHECK(message.find("--max-model-len 992") != std::string::npos);
        CHECK(message.find("--kv-cache-memory-bytes 4096000") != std::string::npos);
    }
    request.max_model_len = 992;
    CHECK(make_memory_plan(request).max_model_len == 992);
    request.max_model_len = 2000;
    request.kv_cache_bytes = 4096000;
    CHECK(make_memory_plan(request).max_model_len == 2000);
}

TEST_CASE("a window holds fewer blocks than the whole context") {
    MemoryRequest request = small_request();
    request.groups = {full_group(2, 2, 64), full_group(2, 2, 64, 128)};
    const MemoryPlan plan = make_memory_plan(request);
    REQUIRE(plan.num_blocks.size() == 2);
    CHECK(plan.num_blocks[0] == 8 * 128);
    // One block more than the window for each, and one step's tokens for all.
    CHECK(plan.num_blocks[1] == 8 * (128 / 16 + 1) + 512 / 16);
    CHECK(plan.max_concurrency == doctest::Approx(8.0));
}

TEST_CASE("a plan that does not fit has the figures of one sequence and names what would") {
    MemoryRequest request = small_request();
    request.kv_cache_bytes = 2048 * 1000;
    request.max_model_len = 2000;
    const MemoryPlan plan = plan_memory(request);
    CHECK(plan.shortage.find("--max-model-len 992") != std::string::npos);
    CHECK(plan.kv_bytes == uint64_t{2048} * 2000);
    CHECK(plan.max_concurrency < 1.0);
}

TEST_CASE(
    "weights that leave no room are named, with a size of the cache that works all the same") {
    MemoryRequest request = small_request();
    request.weight_bytes = uint64_t{130} << 30;
    const MemoryPlan plan = plan_memory(request);
    CHECK(plan.shortage.find("130.00 GiB") != std::string::npos);
    CHECK(plan.shortage.find("--kv-cache-memory-bytes 4194304") != std::string::npos);
    request.kv_cache_bytes = 4194304;
    const MemoryPlan forced = make_memory_plan(request);
    CHECK(forced.max_model_len == 2048);
    REQUIRE(forced.notices.size() == 1);
    CHECK(forced.notices[0].find("free memory") != std::string::npos);
}

TEST_CASE("the outlook: longer contexts and more sequences, as other flags would give them") {
    MemoryRequest request = small_request();
    request.kv_cache_bytes = uint64_t{6} << 20;
    request.max_model_len = 1024;
    const MemoryPlan plan = plan_memory(request);
    CHECK(plan.max_concurrency == doctest::Approx(3.0));
    CHECK(plan.longest_context == 2048);
    CHECK(plan.longest_shared_context == 384);
    request.max_model_len = plan.longest_shared_context;
    CHECK(plan_memory(request).max_concurrency == doctest::Approx(8.0));
    request.max_model_len = 1024;
    request.kv_cache_bytes = plan.kv_bytes_for_all;
    CHECK(plan_memory(request).max_concurrency == doctest::Approx(8.0));
}

TEST_CASE("a memory limit holds weights, scratch and cache together") {
    MemoryRequest request = small_request();
    request.weight_bytes = uint64_t{10} << 20;
    request.scratch_bytes = uint64_t{2} << 20;
    const uint64_t unlimited = make_memory_plan(request).kv_bytes;
    request.limit_bytes = uint64_t{20} << 20;
    const MemoryPlan plan = make_memory_plan(request);
    CHECK(plan.kv_budget_bytes == uint64_t{8} << 20);
    CHECK(plan.kv_bytes < unlimited);
    CHECK(plan.weight_bytes + plan.scratch_bytes + plan.kv_bytes <= *request.limit_bytes);
    CHECK(plan.weight_bytes + plan.scratch_bytes + plan.kv_bytes > *request.limit_bytes * 9 / 10);
    CHECK(plan.max_model_len == 2048);

    request.limit_bytes = uint64_t{1} << 40;
    CHECK(make_memory_plan(request).kv_bytes == unlimited);
    request.limit_bytes = uint64_t{13} << 20;
    CHECK(make_memory_plan(request).max_model_len == 512);
    request.limit_bytes = uint64_t{11} << 20;
    CHECK_THROWS_WITH_AS(
        make_memory_plan(request),
        doctest::Contains("within --memory-limit 11.0 MiB: use --memory-limit 16777216 or more"),
        Error);
    request.limit_bytes = 16777216;
    CHECK(make_memory_plan(request).max_model_len == 2048);
}

TEST_CASE("a cache that was named is held to the limit too") {
    MemoryRequest request = small_request();
    request.weight_bytes = uint64_t{10} << 20;
    request.limit_bytes = uint64_t{20} << 20;
    request.kv_cache_bytes = uint64_t{10} << 20;
    CHECK(make_memory_plan(request).shortage.empty());
    request.kv_cache_bytes = uint64_t{12} << 20;
    CHECK_THROWS_WITH_AS(make_memory_plan(request), doctest::Contains("lower --kv-cache-memory-by"),
                         Error);
}

TEST_CASE("a share of free memory that was named is filled with the cache") {
    MemoryRequest request = small_request();
    request.max_num_seqs = 65536;
    request.weight_bytes = uint64_t{1} << 30;
    CHECK(make_memory_plan(request).kv_budget_bytes == uint64_t{7} << 29);  // half of what is left
    request.utilization = 0.5;
    const MemoryPlan plan = make_memory_plan(request);
    CHECK(plan.kv_budget_bytes == uint64_t{3} << 30);
    CHECK(plan.kv_bytes > (uint64_t{3} << 30) * 99 / 100);
    request.utilization = 1.0;
    CHECK(make_memory_plan(request).kv_budget_bytes == uint64_t{7} << 30);
    request.limit_bytes = uint64_t{2} << 30;
    CHECK(make_memory_plan(request).kv_budget_bytes == uint64_t{1} << 30);
    request.limit_bytes.reset();
    request.utilization = 0.1;
    CHECK_THROWS_WITH_AS(make_memory_plan(request),
                         doctest::Contains("in 0.1 of 8.00 GiB of free memory (--gpu-mem"), Error);
}

TEST_CASE("no more blocks than were allowed, in every group") {
    MemoryRequest request = small_request();
    request.groups = {full_group(4, 2, 64), full_group(2, 2, 64, 128)};
    request.max_blocks = 300;
    const MemoryPlan plan = make_memory_plan(request);
    CHECK(plan.max_model_len == 2048);
    CHECK(plan.num_blocks[0] <= 300);
    CHECK(plan.num_blocks[0] >= 299);
    CHECK(plan.num_blocks[1] <= 300);
    CHECK(plan.max_concurrency == doctest::Approx(300.0 / 128.0));

    request.max_blocks = 100;
    const MemoryPlan cut = make_memory_plan(request);
    CHECK(cut.max_model_len == 1600);
    CHECK(cut.num_blocks[0] == 100);
    REQUIRE(cut.notices.size() == 1);
    CHECK(cut.notices[0].find("--max-blocks") != std::string::npos);

    request.max_model_len = 2048;
    CHECK_THROWS_WITH_AS(make_memory_plan(request),
                         "a sequence of 2048 tokens needs 128 blocks of 16, but --max-blocks "
                         "allows 100: use --max-blocks 128, or --max-model-len 1600 or less",
                         Error);
    request.max_model_len = 1600;
    CHECK(make_memory_plan(request).num_blocks[0] == 100);
}

TEST_CASE("whole prompts: no more blocks than a step uses, and no longer ones than a step holds") {
    MemoryRequest request = small_request();
    request.whole_prompts = true;
    request.max_num_batched_tokens = 4096;
    MemoryPlan plan = make_memory_plan(request);
    CHECK(plan.max_model_len == 2048);
    CHECK(plan.max_concurrency == doctest::Approx(2.0));
    // Each of many prompts leaves a part of its last block empty.
    CHECK(plan.num_blocks == std::vector<int32_t>{4096 / 16 + 8});
    CHECK(plan.notices.empty());
    request.max_model_len = 24;
    plan = make_memory_plan(request);
    CHECK(plan.max_concurrency == doctest::Approx(8.0));
    CHECK(plan.num_blocks == std::vector<int32_t>{8 * 2});
    request.max_model_len.reset();
    request.max_num_batched_tokens = 500;
    plan = make_memory_plan(request);
    CHECK(plan.max_model_len == 500);
    REQUIRE(plan.notices.size() == 1);
    CHECK(plan.notices[0].find("from 2048 to 500") != std::string::npos);
    CHECK(plan.num_blocks == std::vector<int32_t>{32 + 8});
}

TEST_CASE("a device's memory is planned by itself, and what is too little names what would fit") {
    MemoryRequest request = small_request();
    request.device = "cuda:1";
    request.weight_bytes = uint64_t{6} << 30;
    request.utilization = 0.9;
    request.swap_bytes = uint64_t{16} << 30;  // of the host
    const MemoryPlan plan = make_memory_plan(request);
    CHECK(plan.device == "cuda:1");
    CHECK(plan.summary().starts_with("cuda:1: "));
    CHECK(plan.kv_budget_bytes ==
          static_cast<uint64_t>(0.9 * static_cast<double>(uint64_t{8} << 30)) -
              (uint64_t{6} << 30));

    request.utilization = 0.5;
    const std::string shortage = plan_memory(request).shortage;
    CHECK(shortage.find("free memory of cuda:1") != std::string::npos);
    CHECK(shortage.ends_with("use --gpu-memory-utilization 0.76"));
    request.utilization = 0.76;
    CHECK(plan_memory(request).shortage.empty());

    request.weight_bytes = uint64_t{9} << 30;
    CHECK(plan_memory(request).shortage.find("a device with more memory") != std::string::npos);

    request.weight_bytes = uint64_t{7} << 30;
    request.kv_cache_bytes = uint64_t{4} << 30;
    request.max_num_seqs = 4096;
    CHECK(
        plan_memory(request).shortage.ends_with("use --kv-cache-memory-bytes 1073741824 or less"));
}

TEST_CASE("states take slots beside the blocks, at most half of the cache") {
    MemoryRequest request = small_request();
    CacheLayout states;
    states.layers = {4, 5};
    states.kind = CacheLayout::Kind::state;
    states.state_bytes = 1 << 19;
    request.groups.push_back(states);
    request.kv_cache_bytes = uint64_t{24} << 20;
    const MemoryPlan plan = make_memory_plan(request);
    CHECK(plan.shortage.empty());
    CHECK(plan.num_blocks[1] == 12);
    CHECK(plan.block_bytes()[1] == uint64_t{1} << 20);
    CHECK(plan.kv_bytes <= *request.kv_cache_bytes);
    CHECK(plan.kv_bytes_per_token == 2048);
    CHECK(plan.kv_tokens == int64_t{plan.num_blocks[0]} * 16);
    CHECK(plan.max_concurrency == doctest::Approx(3.0));

    // A sequence needs two slots whatever its length.
    request.kv_cache_bytes = (uint64_t{2} << 20) + 2048 * 2048;
    const MemoryPlan least = make_memory_plan(request);
    CHECK(least.max_model_len == 2048);
    CHECK(least.num_blocks == std::vector<int32_t>{128, 2});
    request.kv_cache_bytes = uint64_t{2} << 20;
    CHECK_FALSE(plan_memory(request).shortage.empty());

    // Where there is room, no more than sequences and their checkpoints can use.
    request.kv_cache_bytes = uint64_t{1} << 30;
    CHECK(make_memory_plan(request).num_blocks[1] == 2 * 8 + 64);
    request.swap_bytes = uint64_t{64} << 20;
    const MemoryPlan swapping = make_memory_plan(request);
    CHECK(swapping.num_host_blocks[1] > 0);
    CHECK(swapping.swap_bytes <= request.swap_bytes);
    // --max-blocks is of blocks of tokens.
    request.max_blocks = 128;
    CHECK(make_memory_plan(request).num_blocks == std::vector<int32_t>{128, 80});
}
