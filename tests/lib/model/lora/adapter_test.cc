// Adapters bound to linears: slices of ranks, order of matrices, biases.
#include "lib/model/lora/adapter.h"

#include <doctest/doctest.h>

#include "kernels/host/thread_pool.h"
#include "lib/model/lora/adapter_slots.h"
#include "lib/model/weights/dummy_source.h"
#include "tests/error_of.h"
#include "tests/lib/checkpoint/adapter/written_adapter.h"

namespace nvllm {
namespace {

using test::error_of;
using test::WrittenAdapter;

// Two linears side by side with 4 inputs, and one that reads 6; as `shard` has them.
struct Linears {
    explicit Linears(const Shard& shard = {}) {
        const LinearSpec q{"model.layers.0.q_proj", 4, 6, true, ShardAxis::output};
        const LinearSpec v{"model.layers.0.v_proj", 4, 2, false, ShardAxis::output};
        const LinearSpec o{"model.layers.0.o_proj", 6, 4, false, ShardAxis::input};
        const std::vector<LinearSpec> inputs = {slice_of(q, shard), slice_of(v, shard)};
        const std::vector<LinearSpec> output = {slice_of(o, shard)};
        targets.add(source, inputs);
        targets.add(source, output);
        targets.add_embedding("model.embed_tokens", 8, 4);
        const std::vector<LinearSpec> head = {{"lm_head", 4, 8, false, ShardAxis::none}};
        targets.add(source, head);
        targets.note_head();
    }

    ThreadPool threads{1};
    DummySource source{1, DType::f32, threads};
    LoraTargets targets;
};

std::vector<float> values(const void* data, int64_t count) {
    const auto* const from = static_cast<const float*>(data);
    return {from, from + count};
}

TEST_CASE("parts have their pairs: A as it is stored, B transposed, the scale beside them") {
    WrittenAdapter written(2);
    written.add_module("model.layers.0.v_proj", 2, 4, 2);
    const Linears linears;
    const AdapterFile file = read_adapter(written.written());
    check_adapter(file, linears.targets);
    const Adapter adapter(file, linears.targets);
    const auto pairs = adapter.pairs_at(adapter.data());
    REQUIRE(pairs.size() == 5);
    CHECK(pairs[0].out == 0);
    CHECK(pairs[1].first_column == 6);
    CHECK(pairs[1].out == 2);
    CHECK(pairs[1].scale == 4.0f);
    CHECK(values(pairs[1].a, 8) == std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8});
    CHECK(values(pairs[1].b, 4) == std::vector<float>{100, 102, 101, 103});
}

TEST_CASE("a rank has the outputs of its part of a linear, or the inputs") {
    WrittenAdapter written(1);
    written.add_module("model.layers.0.q_proj", 1, 4, 6);
    written.add_module("model.layers.0.o_proj", 1, 6, 4);
    const AdapterFile file = read_adapter(written.written());
    const Linears second(Shard{1, 2});
    const Adapter adapter(file, second.targets);
    const auto pairs = adapter.pairs_at(adapter.data());
    CHECK(pairs[0].out == 3);
    CHECK(values(pairs[0].a, 4) == std::vector<float>{1, 2, 3, 4});
    CHECK(values(pairs[0].b, 3) == std::vector<float>{103, 104, 105});
    CHECK(values(pairs[2].a, 3) == std::vector<float>{4, 5, 6});
    CHECK(values(pairs[2].b, 4) == std::vector<float>{100, 101, 102, 103});
}

TEST_CASE("a bias in place of the linear's is what it adds to that") {
    WrittenAdapter written(1);
    written.add_module("model.layers.0.v_proj", 1, 4, 2);
    written.add("base_model.model.model.layers.0.q_proj.bias", {6}, 10.0f);
    Linears linears;
    const AdapterFile file = read_adapter(written.written());
    check_adapter(file, linears.targets);
    const Adapter adapter(file, linears.targets);
    const auto pairs = adapter.pairs_at(adapter.data());
    CHECK(pairs[0].rank == 0);
    REQUIRE(pairs[0].bias != nullptr);
    const Tensor own = linears.source.read("model.layers.0.q_proj.bias", {6}, WeightRole::bias);
    for (int64_t i = 0; i < 6; ++i) {
        CHECK(pairs[0].bias[i] + own.view().as<float>()[i] ==
              doctest::Approx(10.0 + static_cast<double>(i)));
    }
}

TEST_CASE("heads and embeddings are tables") {
    WrittenAdapter written(2);
    written.add("base_model.model.model.embed_tokens.lora_embedding_A", {2, 8});
    written.add("base_model.model.model.embed_tokens.lora_embedding_B", {4, 2});
    written.add("base_model.model.lm_head.weight", {8, 4});
    const Linears linears;
    const AdapterFile file = read_adapter(written.written());
    check_adapter(file, linears.targets);
    const Adapter adapter(file, linears.targets);
    const auto tables = adapter.tables_at(adapter.data(), 3, {});
    REQUIRE(tables.size() == 2);
    CHECK(tables[0].kind == LoraTable::Kind::head);
    CHECK(tables[0].slot == 3);
    CHECK(tables[1].kind == LoraTable::Kind::embedding_a);
    CHECK(tables[1].values.describe() == "float32[8, 2]");
    CHECK(values(tables[1].values.data, 4) == std::vector<float>{1, 9, 2, 10});
}

TEST_CASE("modules that the model does not have, or has in another shape, are refused") {
    const Linears linears;
    const auto refused = [&](WrittenAdapter& written) {
        return error_of(ErrorKind::bad_data,
                        [&] { check_adapter(read_adapter(written.written()), linears.targets); });
    };
    WrittenAdapter unknown(1);
    unknown.add_module("model.layers.1.q_proj", 1, 4, 6);
    CHECK(refused(unknown).find("model.layers.1.q_proj is no module") != std::string::npos);
    WrittenAdapter wide(1);
    wide.add_module("model.layers.0.q_proj", 1, 5, 6);
    CHECK(refused(wide).find("4 inputs and 6 outputs") != std::string::npos);
    WrittenAdapter resized(1);
    resized.add("base_model.model.lm_head.weight", {9, 4});
    CHECK(refused(resized).find("another size") != std::string::npos);
    WrittenAdapter norm(1);
    norm.add("base_model.model.model.norm.weight", {4});
    CHECK(refused(norm).find("model.norm.weight") != std::string::npos);
    WrittenAdapter bias(1);
    bias.add("base_model.model.model.layers.0.v_proj.bias", {2});
    CHECK(refused(bias).find("has none") != std::string::npos);
    WrittenAdapter dora(1, R"("use_dora": true)");
    dora.add_module("model.layers.0.q_proj", 1, 4, 6);
    CHECK(refused(dora).find("DoRA") != std::string::npos);
}

TEST_CASE("names of a checkpoint and of a class of transformers are one") {
    ThreadPool threads(1);
    DummySource source(1, DType::f32, threads);
    LoraTargets targets;
    const std::vector<LinearSpec> specs = {{"h.0.attn.c_attn", 4, 4, false, ShardAxis::none}};
    targets.add(source, specs);
    CHECK(targets.find("transformer.h.0.attn.c_attn").has_value());
    CHECK_FALSE(targets.find("vision.h.0.attn.c_attn").has_value());
}

TEST_CASE("slots: linears that no adapter changes are left out, and patterns come again") {
    WrittenAdapter first(2), second(2);
    first.add_module("model.layers.0.q_proj", 2, 4, 6);
    second.add_module("model.layers.0.o_proj", 2, 6, 4);
    const Linears linears;
    const Adapter one(read_adapter(first.written()), linears.targets);
    const Adapter two(read_adapter(second.written()), linears.targets);
    AdapterSlots slots(linears.targets, 2, 16, {});
    const int64_t none = slots.pattern();
    CHECK(slots.linears()[0].pairs == nullptr);
    slots.set(2, one, one.data(), nullptr);
    const int64_t with_one = slots.pattern();
    CHECK(with_one != none);
    REQUIRE(slots.linears()[0].pairs != nullptr);
    // [slots, parts]: the second slot's first part.
    CHECK(slots.linears()[0].pairs[2].out == 6);
    CHECK(slots.linears()[0].pairs[0].out == 0);
    CHECK(slots.linears()[1].pairs == nullptr);
    slots.set(1, two, two.data(), nullptr);
    CHECK(slots.linears()[1].pairs != nullptr);
    slots.clear(1, nullptr);
    CHECK(slots.pattern() == with_one);
}

}  // namespace
}  // namespace nvllm
