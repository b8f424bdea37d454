// Steps as graphs: which sizes there are, when one is captured, launched and thrown away.
#include "lib/execute/graph_cache.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "kernels/ops/elementwise.h"
#include "kernels/ops/open_backend.h"

using namespace nvllm;

TEST_CASE("steps are filled up to a few sizes") {
    std::vector<int32_t> sizes;
    for (int32_t rows = 1; rows <= 33; ++rows) {
        const int32_t size = graph_rows_for(rows, 64).value();
        CHECK(size >= rows);
        if (sizes.empty() || sizes.back() != size) sizes.push_back(size);
    }
    CHECK(sizes == std::vector<int32_t>{1, 2, 4, 8, 16, 24, 32, 40});
    CHECK(graph_rows_for(256, 256) == 256);
    CHECK(!graph_rows_for(257, 256));
    CHECK(!graph_rows_for(3, 3));
    CHECK(!graph_rows_for(0, 8));
}

namespace {

// A step that doubles `values` into scratch, on a module's device.
class Steps {
  public:
    explicit Steps(const char* module)
        : backend_(
              open_backend(std::string(NVLLM_TEST_MODULES) + "/libnanovllm_" + module + ".so")),
          device_(backend_, 0),
          queue_(device_),
          scratch_(1024, device_),
          input_(device_.allocate(kBytes)),
          graphs(device_) {}

    // Twice `first` and twice its double.
    std::vector<float> run(float first, int64_t place = 0, GraphShape shape = {1, 8}) {
        scratch_.reset();
        Context context{.device = device_.id(), .stream = queue_.stream(), .scratch = &scratch_};
        context.backend = &backend_;
        const std::vector<float> values = {first, 2 * first};
        device_.copy_in(queue_.stream(), input_.get(), values.data(), kBytes);
        const ComputedStep step = graphs.run(context, shape, place, [&]() -> ComputedStep {
            ++num_computed;
            const TensorView in(input_.get(), DType::f32, {1, 2}, device_.id());
            const TensorView out(scratch_.take(kBytes + grown_bytes), DType::f32, {1, 2},
                                 device_.id());
            device_.copy_within(queue_.stream(), out.data, in.data, kBytes);
            ops::add(context, in, out);
            if (fails) throw Error(ErrorKind::internal, "not in a graph");
            return {out, std::nullopt};
        });
        CHECK(scratch_.bytes_in_use() > 0);
        std::vector<float> result(2);
        device_.copy_out(queue_.stream(), result.data(), step.hidden.data, kBytes);
        device_.synchronize(queue_.stream());
        return result;
    }

  private:
    static constexpr size_t kBytes = 2 * sizeof(float);
    const BackendTable& backend_;
    ComputeDevice device_;
    Stream queue_;
    ScratchArena scratch_;
    DeviceMemory input_;

  public:
    GraphCache graphs;
    int num_computed = 0;
    size_t grown_bytes = 0;
    bool fails = false;
};

using Floats = std::vector<float>;

}  // namespace

TEST_CASE("a device that keeps no graphs computes each step") {
    Steps steps("example");
    for (const float first : {1.0f, 2.0f, 3.0f})
        CHECK(steps.run(first) == Floats{2 * first, 4 * first});
    CHECK(!steps.graphs.is_usable());
    CHECK(steps.num_computed == 3);
    CHECK(steps.graphs.counts().captures == 0);
}

#ifdef NVLLM_TEST_EMULATED
TEST_CASE("a shape is computed, then captured, then launched with what its inputs are by then") {
    Steps steps("cuda_emulated");
    for (const float first : {1.0f, 2.0f, 3.0f, 5.0f}) {
        CHECK(steps.run(first) == Floats{2 * first, 4 * first});
    }
    CHECK(steps.num_computed == 2);
    CHECK(steps.graphs.counts().captures == 1);
    CHECK(steps.graphs.counts().launches == 3);
    CHECK(steps.run(7.0f, 0, {2, 8}) == Floats{14.0f, 28.0f});
    CHECK(steps.num_computed == 3);
}

TEST_CASE("what moves its inputs or its scratch makes a graph useless") {
    Steps steps("cuda_emulated");
    for (int i = 0; i < 3; ++i) steps.run(1.0f);
    REQUIRE(steps.num_computed == 2);
    steps.run(1.0f, 1);  // the inputs lie elsewhere
    CHECK(steps.num_computed == 3);
    for (int i = 0; i < 3; ++i) steps.run(1.0f, 1);
    CHECK(steps.graphs.counts().captures == 2);
    steps.grown_bytes = 4096;
    steps.run(2.0f, 1, {2, 8});  // grows
    steps.grown_bytes = 0;
    const int computed = steps.num_computed;
    CHECK(steps.run(3.0f, 1) == Floats{6.0f, 12.0f});
    CHECK(steps.num_computed == computed + 1);
}

TEST_CASE("a step that cannot be captured is computed, and no other is tried") {
    Steps steps("cuda_emulated");
    steps.run(1.0f);
    steps.fails = true;
    CHECK_THROWS_AS(steps.run(2.0f), Error);  // fails without a graph as well
    steps.fails = false;
    CHECK(!steps.graphs.is_usable());
    CHECK(steps.run(3.0f) == Floats{6.0f, 12.0f});
    CHECK(steps.graphs.counts().captures == 0);
}
#endif
