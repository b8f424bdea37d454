// The ops of every module that was built for tests, through the contract, against those of the CPU.
#include <filesystem>

#include "device_machine.h"
#include "kernels/ops/check.h"

using namespace nvllm;
using testing::DeviceMachine;

namespace {

std::vector<std::string> modules() {
    std::vector<std::string> paths;
    for (const auto& file : std::filesystem::directory_iterator(NVLLM_TEST_MODULES)) {
        if (file.path().extension() == ".so") paths.push_back(file.path());
    }
    return paths;
}

// What a type can hold of these values.
std::vector<float> held(DType dtype, const std::vector<float>& values) {
    testing::Buffer buffer(dtype, values);
    std::vector<float> result;
    for (int64_t i = 0; i < buffer.size(); ++i) result.push_back(buffer[i]);
    return result;
}

struct Case {
    DeviceMachine device;
    testing::Machine cpu{1};
    DType dtype;
    testing::Random random{7};

    Case(const BackendTable& backend, DType type) : device(backend), dtype(type) {}

    std::vector<float> values(int64_t count, float scale = 1.0f) {
        return held(dtype, random.values(count, scale));
    }
    TensorView put(const std::vector<float>& values, std::initializer_list<int64_t> shape) {
        return device.put(dtype, values, shape);
    }
    // Results are rounded once, and where two types meet intermediate ones as well.
    void check(const char* op, const ConstTensorView& actual, const std::vector<float>& expected) {
        const double relative = actual.dtype == DType::bf16
                                    ? 2.0 / 256
                                    : (actual.dtype == DType::f16 ? 2.0 / 2048 : 2e-5);
        const std::vector<float> found = device.get(actual);
        REQUIRE(found.size() == expected.size());
        bool good = true;
        for (size_t i = 0; i < found.size(); ++i) {
            good = good && testing::close(found[i], expected[i], relative, relative);
        }
        const std::string what = std::string(op) + " in " + dtype_name(dtype);
        INFO(what);
        CHECK(good);
    }
};

void for_each_case(const std::function<void(Case&)>& body) {
    const std::vector<std::string> paths = modules();
    REQUIRE(!paths.empty());
    for (const std::string& path : paths) {
        INFO(path);
        const BackendTable& backend = open_backend(path);
        for (const DType dtype : testing::kFloatTypes) {
            Case one(backend, dtype);
            body(one);
        }
    }
}

constexpr int64_t kTokens = 5;
constexpr int64_t kWidth = 72;

}  // namespace

TEST_CASE("norms on a device agree with the CPU") {
    for_each_case([](Case& c) {
        std::vector<float> x = c.values(kTokens * kWidth, 3.0f);
        std::vector<float> weight = c.values(kWidth), bias = c.values(kWidth);
        std::vector<float> out(x.size());
        const TensorView dx = c.put(x, {kTokens, kWidth});
        const TensorView dweight = c.put(weight, {kWidth});
        const TensorView dout = c.put(out, {kTokens, kWidth});
        const auto view = [](std::vector<float>& values) {
            return testing::view(values, {kTokens, kWidth});
        };
        ops::rms_norm(c.device.context(), dx, dweight, {1e-5f, 1.0f}, dout);
        ops::rms_norm(c.cpu.context(), view(x), testing::view(weight, {kWidth}), {1e-5f, 1.0f},
                      view(out));
        c.check("rms_norm", dout, out);
        ops::layer_norm(c.device.context(), dx, dweight, c.put(bias, {kWidth}), 1e-5f, dout);
        ops::layer_norm(c.cpu.context(), view(x), testing::view(weight, {kWidth}),
                        testing::view(bias, {kWidth}), 1e-5f, view(out));
        c.check("layer_norm", dout, out);
    });
}

TEST_CASE("element-wise ops on a device agree with the CPU") {
    for_each_case([](Case& c) {
        std::vector<float> x = c.values(kTokens * kWidth, 3.0f), y = c.values(kTokens * kWidth);
        std::vector<float> out(x.size());
        const auto view = [](std::vector<float>& values) {
            return testing::view(values, {kTokens, kWidth});
        };
        const TensorView dx = c.put(x, {kTokens, kWidth});
        const TensorView dy = c.put(y, {kTokens, kWidth});
        const TensorView dout = c.put(out, {kTokens, kWidth});
        for (const auto function :
             {ops::Activation::silu, ops::Activation::gelu, ops::Activation::gelu_tanh,
              ops::Activation::relu, ops::Activation::sigmoid}) {
            ops::activation(c.device.context(), function, dx, dout);
            ops::activation(c.cpu.context(), function, view(x), view(out));
            c.check("activation", dout, out);
            ops::gated_activation(c.device.context(), function, dx, dy, dout);
            ops::gated_activation(c.cpu.context(), function, view(x), view(y), view(out));
            c.check("gated_activation", dout, out);
            // Heads of a token, as gates of attention have them.
            const auto heads = [](const TensorView& all) { return all.split_last(2); };
            ops::gated_activation(c.device.context(), function, heads(dy), heads(dx), heads(dout));
            ops::gated_activation(c.cpu.context(), function, heads(view(y)), heads(view(x)),
                                  heads(view(out)));
            c.check("gated_activation", dout, out);
        }
        ops::add(c.device.context(), dx, dy);
        ops::add(c.cpu.context(), view(x), view(y));
        c.check("add", dy, y);
        ops::soft_cap(c.device.context(), 2.5f, dx);
        ops::soft_cap(c.cpu.context(), 2.5f, view(x));
        c.check("soft_cap", dx, x);
        ops::scale(c.device.context(), 0.22f, dx);
        ops::scale(c.cpu.context(), 0.22f, view(x));
        c.check("scale", dx, x);
    });
}

TEST_CASE("rows are looked up, added and converted on a device as on the CPU") {
    for_each_case([](Case& c) {
        std::vector<float> x = c.values(kTokens * kWidth);
        std::vector<int32_t> rows = {3, 0, 4};
        std::vector<float> weights = {0.5f, 2.0f, -1.0f}, out(3 * kWidth);
        const TensorView dx = c.put(x, {kTokens, kWidth});
        const TensorView drows = c.device.put(rows, {3});
        const TensorView dout = c.put(out, {3, kWidth});
        const TensorView hx = testing::view(x, {kTokens, kWidth});
        const TensorView hout = testing::view(out, {3, kWidth});
        ops::gather_rows(c.device.context(), dx, drows, dout);
        ops::gather_rows(c.cpu.context(), hx, testing::view(rows, {3}), hout);
        c.check("gather_rows", dout, out);
        ops::add_weighted_rows(c.device.context(), dout, drows,
                               c.device.put(DType::f32, weights, {3}), dx);
        ops::add_weighted_rows(c.cpu.context(), hout, testing::view(rows, {3}),
                               testing::view(weights, {3}), hx);
        c.check("add_weighted_rows", dx, x);
        ops::embedding(c.device.context(), dx, drows, 1.5f, dout);
        ops::embedding(c.cpu.context(), hx, testing::view(rows, {3}), 1.5f, hout);
        c.check("embedding", dout, out);
        const TensorView dwide =
            c.device.put(DType::f32, std::vector<float>(x.size()), {kTokens, kWidth});
        ops::convert(c.device.context(), dx, dwide);
        CHECK(c.device.get(dwide) == c.device.get(dx));
    });
}

TEST_CASE("products on a device agree with the CPU") {
    for_each_case([](Case& c) {
        const int64_t in = 72, columns = 40;
        std::vector<float> x = c.values(kTokens * in), weight = c.values(columns * in, 0.2f);
        std::vector<float> bias = c.values(columns), y = c.values(kTokens * columns);
        const TensorView dx = c.put(x, {kTokens, in}), dweight = c.put(weight, {columns, in});
        const TensorView dbias = c.put(bias, {columns}), dy = c.put(y, {kTokens, columns});
        const TensorView dlogits =
            c.device.put(DType::f32, std::vector<float>(y.size()), {kTokens, columns});
        std::vector<float> logits(y.size());
        ops::matmul(c.device.context(), dx, dweight, dbias, c.dtype, ops::MatmulOutput::accumulate,
                    dy);
        ops::matmul(c.cpu.context(), testing::view(x, {kTokens, in}),
                    testing::view(weight, {columns, in}), testing::view(bias, {columns}),
                    DType::f32, ops::MatmulOutput::accumulate,
                    testing::view(y, {kTokens, columns}));
        c.check("matmul", dy, y);
        ops::matmul(c.device.context(), dx, dweight, {}, c.dtype, ops::MatmulOutput::overwrite,
                    dlogits);
        ops::matmul(c.cpu.context(), testing::view(x, {kTokens, in}),
                    testing::view(weight, {columns, in}), {}, DType::f32,
                    ops::MatmulOutput::overwrite, testing::view(logits, {kTokens, columns}));
        c.check("matmul to float32", dlogits, logits);
    });
}

TEST_CASE("angles by chosen frequencies agree with the CPU") {
    for_each_case([](Case& c) {
        constexpr int64_t tokens = 6, half = 5;
        std::vector<int32_t> positions = {0, 3, 3, 9, 9, 40}, choices = {0, 0, 1, 1, 0, 1};
        std::vector<float> frequencies = c.values(2 * half);
        std::vector<float> cosines(tokens * half), sines(tokens * half);
        const TensorView dcosines = c.device.put(DType::f32, cosines, {tokens, half});
        const TensorView dsines = c.device.put(DType::f32, sines, {tokens, half});
        ops::rope_cos_sin(c.device.context(), c.device.put(positions, {tokens}),
                          c.device.put(DType::f32, frequencies, {2, half}), 1.5f, dcosines, dsines,
                          c.device.put(choices, {tokens}));
        ops::rope_cos_sin(c.cpu.context(), testing::view(positions, {tokens}),
                          testing::view(frequencies, {2, half}), 1.5f,
                          testing::view(cosines, {tokens, half}),
                          testing::view(sines, {tokens, half}), testing::view(choices, {tokens}));
        c.check("cosines", dcosines, cosines);
        c.check("sines", dsines, sines);
    });
}

TEST_CASE("attention over a device's cache agrees with the CPU") {
    for_each_case([](Case& c) {
        const int64_t heads = 4, kv_heads = 2, dim = 32, block = 4, blocks = 6, tokens = 11;
        std::vector<float> q = c.values(tokens * heads * dim, 2.0f);
        std::vector<float> k = c.values(tokens * kv_heads * dim),
                           v = c.values(tokens * kv_heads * dim);
        std::vector<float> keys(static_cast<size_t>(blocks * kv_heads * dim * block)),
            values = keys;
        std::vector<float> out(q.size());
        std::vector<int64_t> slots;
        std::vector<int32_t> tables = {5, 2, 0, 4, 1, 3}, starts = {0, 9, 11}, lengths = {9, 2};
        for (int32_t p = 0; p < 9; ++p) slots.push_back(tables[p / 4] * block + p % 4);
        for (int32_t p = 0; p < 2; ++p) slots.push_back(tables[3] * block + p);
        std::vector<int32_t> positions(tokens);
        for (int32_t p = 0; p < tokens; ++p) positions[static_cast<size_t>(p)] = p;
        std::vector<float> frequencies = {1.0f, 0.3f, 0.1f, 0.02f}, cosines(tokens * 4),
                           sines(tokens * 4);

        const TensorView dq = c.put(q, {tokens, heads, dim});
        const TensorView dcosines = c.device.put(DType::f32, cosines, {tokens, 4});
        const TensorView dsines = c.device.put(DType::f32, sines, {tokens, 4});
        ops::rope_cos_sin(c.device.context(), c.device.put(positions, {tokens}),
                          c.device.put(DType::f32, frequencies, {4}), 1.0f, dcosines, dsines);
        ops::rope(c.device.context(), dcosines, dsines, ops::RopePairs::halves, dq);
        ops::rope(c.device.context(), dcosines, dsines, ops::RopePairs::interleaved, dq);
        ops::rope_cos_sin(c.cpu.context(), testing::view(positions, {tokens}),
                          testing::view(frequencies, {4}), 1.0f,
                          testing::view(cosines, {tokens, 4}), testing::view(sines, {tokens, 4}));
        const TensorView hq = testing::view(q, {tokens, heads, dim});
        for (const auto pairs : {ops::RopePairs::halves, ops::RopePairs::interleaved}) {
            ops::rope(c.cpu.context(), testing::view(cosines, {tokens, 4}),
                      testing::view(sines, {tokens, 4}), pairs, hq);
        }
        c.check("rope", dq, q);

        const TensorView dkeys = c.put(keys, {blocks, kv_heads, block, dim});
        const TensorView dvalues = c.put(values, {blocks, kv_heads, block, dim});
        ops::write_kv(c.device.context(), c.put(k, {tokens, kv_heads, dim}),
                      c.put(v, {tokens, kv_heads, dim}),
                      c.device.put(testing::view(slots, {tokens})), dkeys, dvalues);
        ops::write_kv(c.cpu.context(), testing::view(k, {tokens, kv_heads, dim}),
                      testing::view(v, {tokens, kv_heads, dim}), testing::view(slots, {tokens}),
                      testing::view(keys, {blocks, kv_heads, dim, block}),
                      testing::view(values, {blocks, kv_heads, block, dim}));
        c.check("write_kv", dvalues, values);

        const TensorView dout = c.put(out, {tokens, heads, dim});
        for (const ops::PagedAttentionOptions& options :
             {ops::PagedAttentionOptions{0.2f, 0, 0.0f, true},
              {0.2f, 3, 20.0f, true},
              {0.2f, 0, 0.0f, false}}) {
            ops::paged_attention(c.device.context(), dq, dkeys, dvalues, c.device.put(starts, {3}),
                                 c.device.put(lengths, {2}), c.device.put(tables, {2, 3}), options,
                                 dout);
            ops::paged_attention(
                c.cpu.context(), hq, testing::view(keys, {blocks, kv_heads, dim, block}),
                testing::view(values, {blocks, kv_heads, block, dim}), testing::view(starts, {3}),
                testing::view(lengths, {2}), testing::view(tables, {2, 3}), options,
                testing::view(out, {tokens, heads, dim}));
            c.check("paged_attention", dout, out);
        }
        ops::copy_blocks(c.device.context(), c.device.put({0, 1}, {1, 2}), dvalues, dvalues);
        const std::vector<float> copied = c.device.get(dvalues);
        const auto size = static_cast<ptrdiff_t>(copied.size()) / blocks;
        CHECK(std::equal(copied.begin(), copied.begin() + size, copied.begin() + size));
    });
}

TEST_CASE("a device's ops refuse memory of the CPU") {
    for_each_case([](Case& c) {
        std::vector<float> x(8);
        const TensorView there = c.device.put(DType::f32, x, {2, 4});
        CHECK_THROWS_AS(ops::add(c.device.context(), testing::view(x, {2, 4}), there), Error);
        CHECK_THROWS_AS(ops::add(c.cpu.context(), there, testing::view(x, {2, 4})), Error);
    });
}
