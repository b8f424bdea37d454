// The table of weight schemes, and linears made of their parts.
#include "lib/model/weights/scheme.h"

#include <algorithm>
#include <array>

#include "kernels/error.h"
#include "lib/model/weights/dense.h"

namespace nvllm {
namespace {

constexpr std::array<WeightScheme, 1> kSchemes = {{
    {"dense", stores_dense, load_dense},
}};

}  // namespace

std::span<const WeightScheme> weight_schemes() { return kSchemes; }

LinearWeight::LinearWeight(std::vector<std::unique_ptr<LinearPart>> parts)
    : parts_(std::move(parts)) {
    for (const auto& part : parts_) {
        NVLLM_CHECK(part->in() == in(), "parts of one linear read the same input");
    }
}

int64_t LinearWeight::out() const {
    int64_t columns = 0;
    for (const auto& part : parts_) columns += part->out();
    return columns;
}

size_t LinearWeight::bytes() const {
    size_t bytes = 0;
    for (const auto& part : parts_) bytes += part->bytes();
    return bytes;
}

size_t LinearWeight::scratch_bytes(int64_t tokens, int num_threads) const {
    size_t bytes = 0;
    for (const auto& part : parts_)
        bytes = std::max(bytes, part->scratch_bytes(tokens, num_threads));
    return bytes;
}

void LinearWeight::apply(const Context& context, const ConstTensorView& x, ops::MatmulOutput output,
                         const TensorView& y) const {
    int64_t column = 0;
    for (const auto& part : parts_) {
        const ScratchArena::Scope scope(*context.scratch);
        part->apply(context, x, output, y.columns(column, part->out()));
        column += part->out();
    }
}

LinearWeight load_linear(WeightSource& source, std::span<const LinearName> names) {
    std::vector<std::unique_ptr<LinearPart>> parts;
    for (const LinearName& name : names) {
        const auto scheme = std::find_if(
            kSchemes.begin(), kSchemes.end(),
            [&](const WeightScheme& candidate) { return candidate.stores(source, name); });
        NVLLM_CHECK(scheme != kSchemes.end(), "the last scheme takes any linear");
        parts.push_back(scheme->load(source, name));
    }
    return LinearWeight(std::move(parts));
}

LinearWeight load_linear(WeightSource& source, const LinearName& name) {
    return load_linear(source, std::span<const LinearName>(&name, 1));
}

}  // namespace nvllm
