// Products of the shapes of a decoder's layers, and sums of hidden states.
#include "lib/execute/ranks/rank_probe.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>

#include "kernels/context.h"
#include "kernels/error.h"
#include "kernels/ops/matmul.h"
#include "lib/base/log.h"
#include "lib/execute/worker_setup.h"
#include "lib/parallel/rank_groups.h"
#include "lib/system/memory_info.h"
#include "lib/tensor/tensor.h"

namespace nvllm {
namespace {

constexpr int64_t kWidth = 2048;  // in and out of a matrix
constexpr int64_t kRows = 256;    // of products that compute
constexpr int kPasses = 5;
constexpr int kSums = 31;
constexpr uint64_t kFirstSum = 1 << 12;
constexpr uint64_t kLastSum = 4 << 20;

class RankMeter {
  public:
    RankMeter(const RankProbe& probe, ThreadPool& threads)
        : groups_(probe.ranks, 0, kLastSum), scratch_(size_t{1} << 20) {
        context_.scratch = &scratch_;
        context_.threads = &threads;
        const size_t bytes = static_cast<size_t>(kWidth * kWidth) * dtype_bytes(probe.dtype);
        const size_t count = std::max<size_t>(1, probe.weight_bytes / bytes);
        for (size_t i = 0; i < count; ++i) {
            weights_.push_back(Tensor::allocate(probe.dtype, {kWidth, kWidth}));
            std::memset(weights_.back().mutable_view().data, 0x3c, bytes);
        }
    }

    double read_bytes_per_s() {
        const double seconds = seconds_of(kPasses, [&] {
            for (const Tensor& weight : weights_) multiply(1, weight);
        });
        return static_cast<double>(weights_.size() * weights_.front().bytes()) / seconds;
    }

    double operations_per_s() {
        const double seconds = seconds_of(kPasses, [&] { multiply(kRows, weights_.front()); });
        return 2.0 * static_cast<double>(kRows * kWidth * kWidth) / seconds;
    }

    SumSample sum(uint64_t bytes) {
        const Tensor values =
            Tensor::allocate(DType::f32, {static_cast<int64_t>(bytes / sizeof(float))});
        std::memset(values.mutable_view().data, 0, bytes);
        return {bytes, seconds_of(kSums, [&] {
                    groups_.tensor()->all_reduce(nullptr, values.mutable_view());
                })};
    }

  private:
    // The median; all ranks begin together.
    double seconds_of(int passes, const std::function<void()>& pass) {
        std::vector<double> seconds;
        for (int i = 0; i < passes; ++i) {
            float nothing = 0.0f;
            groups_.tensor()->all_reduce(nullptr, {&nothing, DType::f32, {1}});
            const auto begin = std::chrono::steady_clock::now();
            pass();
            const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
            seconds.push_back(passed.count());
        }
        std::ranges::nth_element(seconds, seconds.begin() + passes / 2);
        return seconds[static_cast<size_t>(passes / 2)];
    }

    void multiply(int64_t rows, const Tensor& weight) {
        scratch_.reset();
        const auto count = static_cast<size_t>(rows * kWidth);
        float* const x = scratch_.take_array<float>(count);
        float* const y = scratch_.take_array<float>(count);
        std::fill_n(x, count, 1.0f);
        ops::matmul(context_, {x, DType::f32, {rows, kWidth}}, weight.view(), {},
                    weight.view().dtype, ops::MatmulOutput::overwrite,
                    {y, DType::f32, {rows, kWidth}});
    }

    RankGroups groups_;
    ScratchArena scratch_;
    Context context_;
    std::vector<Tensor> weights_;
};

}  // namespace

RankProbe RankProbe::of_rank(int32_t rank) const {
    RankProbe own = *this;
    own.ranks.rank = rank;
    own.placement = share_of(placement, rank, ranks.sizes.num_ranks());
    return own;
}

RankRates measure_as_rank(const RankProbe& probe, int num_local, ThreadPool& threads) {
    NVLLM_CHECK(probe.ranks.sizes.tensor > 1, "ranks that sum");
    if (const std::string refused = threads.bind_caller(); !refused.empty()) log_warning(refused);
    RankMeter meter(probe, threads);
    RankRates rates;
    rates.read_bytes_per_s = meter.read_bytes_per_s();
    rates.operations_per_s = meter.operations_per_s();
    rates.memory_bytes = available_memory_bytes() / static_cast<uint64_t>(num_local);
    for (uint64_t bytes = kFirstSum; bytes <= kLastSum; bytes *= 4) {
        rates.sums.push_back(meter.sum(bytes));
    }
    return rates;
}

}  // namespace nvllm
