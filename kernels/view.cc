// Layout arithmetic of views.
#include "kernels/view.h"

namespace nvllm {
namespace {

ViewLayout sliced(const ViewLayout& layout, int axis, int64_t begin, int64_t count) {
    NVLLM_CHECK(axis >= 0 && begin >= 0 && count >= 0 && begin + count <= layout.dim(axis),
                "slice outside of " + layout.describe());
    ViewLayout result = layout;
    result.shape[static_cast<size_t>(axis)] = count;
    return result;
}

ViewLayout reshaped_layout(const ViewLayout& layout, std::initializer_list<int64_t> dims) {
    NVLLM_CHECK(layout.contiguous(),
                "only a contiguous view can be reshaped: " + layout.describe());
    ViewLayout result = ViewLayout::dense(layout.dtype, dims, layout.device);
    NVLLM_CHECK(result.numel() == layout.numel(),
                "cannot reshape " + layout.describe() + " to " + result.describe());
    return result;
}

ViewLayout split_layout(const ViewLayout& layout, int64_t parts) {
    NVLLM_CHECK(layout.rank >= 1 && layout.rank < kMaxRank, "cannot split " + layout.describe());
    const auto last = static_cast<size_t>(layout.rank - 1);
    NVLLM_CHECK(parts > 0 && layout.shape[last] % parts == 0,
                "uneven split of " + layout.describe());
    ViewLayout result = layout;
    result.rank = layout.rank + 1;
    result.shape[last] = parts;
    result.shape[last + 1] = layout.shape[last] / parts;
    result.strides[last] = layout.strides[last] * result.shape[last + 1];
    result.strides[last + 1] = layout.strides[last];
    return result;
}

template <typename Byte, typename View>
auto offset(const View& view, int axis, int64_t begin) {
    return static_cast<Byte*>(view.data) +
           begin * view.stride(axis) * static_cast<int64_t>(dtype_bytes(view.dtype));
}

}  // namespace

ViewLayout ViewLayout::dense(DType dtype, std::initializer_list<int64_t> dims, Device device) {
    NVLLM_CHECK(dims.size() <= static_cast<size_t>(kMaxRank), "too many axes");
    ViewLayout layout;
    layout.dtype = dtype;
    layout.device = device;
    layout.rank = static_cast<int>(dims.size());
    size_t axis = 0;
    for (const int64_t size : dims) layout.shape[axis++] = size;
    int64_t stride = 1;
    for (size_t i = dims.size(); i-- > 0;) {
        layout.strides[i] = stride;
        stride *= layout.shape[i];
    }
    return layout;
}

int64_t ViewLayout::numel() const {
    int64_t count = 1;
    for (int axis = 0; axis < rank; ++axis) count *= dim(axis);
    return count;
}

bool ViewLayout::contiguous() const {
    int64_t expected = 1;
    for (int axis = rank - 1; axis >= 0; --axis) {
        if (dim(axis) != 1 && stride(axis) != expected) return false;
        expected *= dim(axis);
    }
    return true;
}

std::string ViewLayout::describe() const {
    std::string text = std::string(dtype_name(dtype)) + "[";
    for (int axis = 0; axis < rank; ++axis) {
        if (axis > 0) text += ", ";
        text += std::to_string(dim(axis));
    }
    return text + "]";
}

TensorView TensorView::rows(int64_t begin, int64_t count) const {
    return {offset<char>(*this, 0, begin), sliced(*this, 0, begin, count)};
}

TensorView TensorView::columns(int64_t begin, int64_t count) const {
    return {offset<char>(*this, rank - 1, begin), sliced(*this, rank - 1, begin, count)};
}

TensorView TensorView::reshaped(std::initializer_list<int64_t> dims) const {
    return {data, reshaped_layout(*this, dims)};
}

TensorView TensorView::split_last(int64_t parts) const {
    return {data, split_layout(*this, parts)};
}

ConstTensorView ConstTensorView::rows(int64_t begin, int64_t count) const {
    return {offset<const char>(*this, 0, begin), sliced(*this, 0, begin, count)};
}

ConstTensorView ConstTensorView::columns(int64_t begin, int64_t count) const {
    return {offset<const char>(*this, rank - 1, begin), sliced(*this, rank - 1, begin, count)};
}

ConstTensorView ConstTensorView::reshaped(std::initializer_list<int64_t> dims) const {
    return {data, reshaped_layout(*this, dims)};
}

ConstTensorView ConstTensorView::split_last(int64_t parts) const {
    return {data, split_layout(*this, parts)};
}

}  // namespace nvllm
