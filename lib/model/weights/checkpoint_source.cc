// Reading and checking tensors of a checkpoint.
#include "lib/model/weights/checkpoint_source.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>

#include "kernels/error.h"
#include "lib/system/memory_info.h"

namespace nvllm {
namespace {

// Of a weight; float64 is read as float32.
bool is_float(DType dtype) {
    return dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16 ||
           dtype == DType::f64;
}

bool has_shape(const ConstTensorView& view, std::initializer_list<int64_t> shape) {
    if (static_cast<size_t>(view.rank) != shape.size()) return false;
    int axis = 0;
    for (const int64_t size : shape) {
        if (view.dim(axis++) != size) return false;
    }
    return true;
}

bool is_one_of(DType dtype, std::initializer_list<DType> types) {
    return std::find(types.begin(), types.end(), dtype) != types.end();
}

std::string names_of(std::initializer_list<DType> types) {
    std::vector<const char*> names;
    for (const DType type : types) names.push_back(dtype_name(type));
    return fmt::format("{}", fmt::join(names, " or "));
}

// safetensors files may hold values at odd addresses; ops read whole elements.
Tensor aligned(const Tensor& tensor) {
    const auto address = reinterpret_cast<uintptr_t>(tensor.view().data);
    if (address % dtype_bytes(tensor.view().dtype) == 0) return tensor;
    Tensor copy = Tensor::allocate(tensor.view(), ComputeDevice());
    std::memcpy(copy.mutable_view().data, tensor.view().data, tensor.bytes());
    return copy;
}

Tensor with_layout(const Tensor& tensor, DType dtype) {
    ConstTensorView view = tensor.view();
    view.dtype = dtype;
    return Tensor::borrow(view, nullptr);
}

Tensor from_float64(const Tensor& wide, ThreadPool& threads) {
    constexpr int64_t kGrain = 4096;
    ViewLayout layout = wide.view();
    layout.dtype = DType::f32;
    Tensor narrow = Tensor::allocate(layout, ComputeDevice());
    const auto* const from = wide.view().as<double>();
    auto* const to = narrow.mutable_view().as<float>();
    threads.parallel_for(wide.view().numel(), kGrain, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) to[i] = static_cast<float>(from[i]);
    });
    return narrow;
}

// The part's rows of the transpose of a matrix [in, out], as bytes.
Tensor turned_rows(const ConstTensorView& matrix, const StoredPart& part) {
    const size_t bytes = dtype_bytes(matrix.dtype);
    const int64_t in = matrix.dim(0);
    Tensor rows = Tensor::allocate(matrix.dtype, {part.count, in});
    auto* to = rows.mutable_view().as<std::byte>();
    for (int64_t row = 0; row < part.count; ++row) {
        const auto* from =
            matrix.as<std::byte>() + static_cast<size_t>(part.first + row * part.step) * bytes;
        for (int64_t column = 0; column < in; ++column) {
            std::memcpy(to, from, bytes);
            to += bytes;
            from += static_cast<size_t>(matrix.dim(1)) * bytes;
        }
    }
    return rows;
}

// The part's rows of a matrix [out, in], one behind the other.
Tensor spread_rows(const ConstTensorView& matrix, const StoredPart& part) {
    const size_t bytes = dtype_bytes(matrix.dtype) * static_cast<size_t>(matrix.dim(1));
    Tensor rows = Tensor::allocate(matrix.dtype, {part.count, matrix.dim(1)});
    for (int64_t row = 0; row < part.count; ++row) {
        std::memcpy(
            rows.mutable_view().as<std::byte>() + static_cast<size_t>(row) * bytes,
            matrix.as<std::byte>() + static_cast<size_t>(part.first + row * part.step) * bytes,
            bytes);
    }
    return rows;
}

// A tensor whose memory stays with `owner`, in another shape.
Tensor reshaped(const Tensor& owner, std::initializer_list<int64_t> shape) {
    return Tensor::borrow(ConstTensorView(owner.view().data, owner.view().dtype, shape),
                          std::make_shared<const Tensor>(owner));
}

Tensor read_part(const Checkpoint& checkpoint, const StoredPart& part, bool has_values) {
    const std::optional<Tensor> whole = checkpoint.tensor(part.whole);
    const int out_axis = part.is_turned ? 2 : 1;
    if (!whole || whole->view().rank <= out_axis || whole->view().dim(0) != part.num_matrices ||
        whole->view().dim(out_axis) != part.num_outputs) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: {} is {}, expected {} matrices or vectors with {} outputs; do "
                                "the weights belong to this config.json?",
                                checkpoint.file_of(part.whole), part.whole,
                                whole ? whole->view().describe() : "not there", part.num_matrices,
                                part.num_outputs));
    }
    const ConstTensorView& stack = whole->view();
    const auto start =
        static_cast<size_t>(part.matrix * stack.stride(0)) * dtype_bytes(stack.dtype);
    if (stack.rank == 2) {
        if (part.step != 1 && has_values) {
            const ConstTensorView column(stack.as<std::byte>() + start, stack.dtype,
                                         {stack.dim(1), 1});
            return reshaped(spread_rows(column, part), {part.count});
        }
        const std::byte* const first = stack.as<std::byte>() + start +
                                       static_cast<size_t>(part.first) * dtype_bytes(stack.dtype);
        return Tensor::borrow(ConstTensorView(first, stack.dtype, {part.count}),
                              checkpoint.file(part.whole));
    }
    const ConstTensorView matrix(stack.as<std::byte>() + start, stack.dtype,
                                 {stack.dim(1), stack.stride(0) / stack.dim(1)});
    if (!part.is_scattered())
        return Tensor::borrow(matrix.rows(part.first, part.count), checkpoint.file(part.whole));
    if (has_values) return part.is_turned ? turned_rows(matrix, part) : spread_rows(matrix, part);
    const int64_t in = matrix.dim(part.is_turned ? 0 : 1);
    return Tensor::borrow(ConstTensorView(matrix.data, matrix.dtype, {part.count, in}), nullptr);
}

// Whether the bytes are the file's own: of a copy no pages may be given back.
bool is_in_file(const ConstTensorView& whole, const Tensor& found) {
    const auto* const begin = whole.as<std::byte>();
    const auto* const end = begin + static_cast<size_t>(whole.numel()) * dtype_bytes(whole.dtype);
    const auto* const data = found.view().as<std::byte>();
    return !std::less<>()(data, begin) && std::less<>()(data, end);
}

std::span<const std::byte> bytes_of(const Tensor& tensor) {
    return {tensor.view().as<std::byte>(), tensor.bytes()};
}

// What is wanted of a tensor that was found: all of it, or the slice. Pages of which a copy was
// made are given back: other slices lie there.
Tensor wanted(const ConstTensorView& whole, const Tensor& found,
              std::initializer_list<int64_t> shape, const TensorSlice& slice, bool has_values) {
    if (slice.shard.is_whole() || has_shape(found.view(), shape)) return found;
    if (!has_values) {
        return Tensor::borrow(ConstTensorView(found.view().data, found.view().dtype, shape),
                              nullptr);
    }
    Tensor own = cut(found, slice);
    if (is_in_file(whole, found) && !is_in_file(whole, own)) release_mapped_pages(bytes_of(found));
    return own;
}

// The tensor of the file that a name is, or is a part of.
ConstTensorView whole_of(const Checkpoint& checkpoint, const NamedParts& parts,
                         const std::string& name) {
    const StoredPart* const part = parts.find(name);
    return *checkpoint.find(part == nullptr ? name : part->whole);
}

}  // namespace

const StoredPart* NamedParts::find(const std::string& name) const {
    const auto found = parts_.find(name);
    return found == parts_.end() ? nullptr : &found->second;
}

std::vector<StoredPart> NamedParts::of(const std::string& linear) const {
    const std::string beginning = linear + ".";
    std::vector<StoredPart> parts;
    for (auto row = parts_.lower_bound(beginning);
         row != parts_.end() && row->first.starts_with(beginning); ++row) {
        parts.push_back(row->second);
    }
    return parts;
}

bool CheckpointSource::has(const std::string& name) const {
    return parts_.find(name) != nullptr || checkpoint_.find(name).has_value();
}

void CheckpointSource::name_part(const std::string& name, const StoredPart& part) {
    parts_.add(name, part);
    if (hook() != nullptr) hook()->name_part(name, part);
}

std::optional<Tensor> CheckpointSource::tensor(const std::string& name) const {
    const StoredPart* const part = parts_.find(name);
    return part == nullptr ? checkpoint_.tensor(name) : read_part(checkpoint_, *part, has_values());
}

Tensor CheckpointSource::find(const std::string& name, const std::string& expected) const {
    std::optional<Tensor> found = tensor(name);
    if (found) return *std::move(found);
    const std::string promised = checkpoint_.promised_file(name);
    throw Error(
        ErrorKind::bad_data,
        fmt::format(
            "{}: has no tensor {}, expected {}{}", checkpoint_.file_of(name), name, expected,
            promised.empty() ? "" : fmt::format("; the index says that it is in {}", promised)));
}

Tensor CheckpointSource::keep(const std::string& name, const Tensor& found, bool is_stored) {
    const StoredPart* const part = parts_.find(name);
    read_names_.insert(part == nullptr ? name : part->whole);
    read_bytes_ += found.bytes();
    if (is_stored && has_values() && is_in_file(whole_of(checkpoint_, parts_, name), found)) {
        stored_.push_back(bytes_of(found));
    }
    const bool is_wide = found.view().dtype == DType::f64;
    if (!has_values()) return is_wide ? with_layout(found, DType::f32) : found;
    return is_wide ? from_float64(aligned(found), threads()) : aligned(found);
}

void CheckpointSource::release_stored() {
    for (const std::span<const std::byte> bytes : stored_) release_mapped_pages(bytes);
    stored_.clear();
}

Tensor CheckpointSource::read_slice(const std::string& name, std::initializer_list<int64_t> shape,
                                    WeightRole, const TensorSlice& slice) {
    const std::string expected = ViewLayout::dense(compute_type(), shape).describe();
    const Tensor found = find(name, expected);
    if (!slice.fits(found.view(), shape) || !is_float(found.view().dtype)) {
        throw Error(
            ErrorKind::bad_data,
            fmt::format("{}: tensor {} is {}, expected {} or another float type; do the "
                        "weights belong to this config.json?",
                        checkpoint_.file_of(name), name, found.view().describe(), expected));
    }
    return keep(name,
                wanted(whole_of(checkpoint_, parts_, name), found, shape, slice, has_values()),
                false);
}

Tensor CheckpointSource::read_stored(const std::string& name, std::initializer_list<int64_t> shape,
                                     std::initializer_list<DType> types, const TensorSlice& slice) {
    const std::string expected =
        fmt::format("{}{}", names_of(types), fmt::format("[{}]", fmt::join(shape, ", ")));
    const Tensor found = find(name, expected);
    if (!slice.fits(found.view(), shape) || !is_one_of(found.view().dtype, types)) {
        throw Error(
            ErrorKind::bad_data,
            fmt::format("{}: tensor {} is {}, expected {}; does quantization_config belong "
                        "to these weights?",
                        checkpoint_.file_of(name), name, found.view().describe(), expected));
    }
    return keep(
        name, wanted(whole_of(checkpoint_, parts_, name), found, shape, slice, has_values()), true);
}

Tensor CheckpointSource::read_stored_flat(const std::string& name, int64_t count,
                                          std::initializer_list<DType> types,
                                          const TensorSlice& slice) {
    const std::string expected = fmt::format("{} values of {}", count, names_of(types));
    const Tensor found = find(name, expected);
    const int64_t numel = found.view().numel();
    const bool is_sized = numel == count || numel == slice.whole_size(count);
    if (!is_sized || !is_one_of(found.view().dtype, types)) {
        throw Error(
            ErrorKind::bad_data,
            fmt::format("{}: tensor {} is {}, expected {}; does quantization_config belong "
                        "to these weights?",
                        checkpoint_.file_of(name), name, found.view().describe(), expected));
    }
    if (numel == count) return keep(name, found, true);
    const Tensor flat =
        Tensor::borrow(ConstTensorView(found.view().data, found.view().dtype, {numel}),
                       std::make_shared<const Tensor>(found));
    return keep(name,
                wanted(whole_of(checkpoint_, parts_, name), flat, {count},
                       {slice.shard, 0, slice.pieces}, has_values()),
                true);
}

bool CheckpointSource::has_shape(const std::string& name,
                                 std::initializer_list<int64_t> shape) const {
    const std::optional<ConstTensorView> found = checkpoint_.find(name);
    return found && nvllm::has_shape(*found, shape);
}

int64_t CheckpointSource::count_of(const std::string& name) const {
    const std::optional<ConstTensorView> found = checkpoint_.find(name);
    return found ? found->numel() : 0;
}

bool CheckpointSource::has_matrix(const std::string& linear) const {
    constexpr std::array kSuffixes = {".weight", ".weight_packed", ".qweight", ".compressed"};
    return std::any_of(kSuffixes.begin(), kSuffixes.end(),
                       [&](const char* suffix) { return has(linear + suffix); });
}

bool CheckpointSource::are_equal(const std::string& a, const std::string& b) const {
    const std::optional<Tensor> one = checkpoint_.tensor(a);
    const std::optional<Tensor> other = checkpoint_.tensor(b);
    return one && other && one->view().describe() == other->view().describe() &&
           std::memcmp(one->view().data, other->view().data, one->bytes()) == 0;
}

bool CheckpointSource::keeps_dense(const std::string& linear) const {
    if (parts_.find(linear + ".weight") != nullptr) return true;
    for (const char* suffix : {".weight", ".compressed"}) {
        const std::optional<ConstTensorView> found = checkpoint_.find(linear + suffix);
        if (found && is_float(found->dtype)) return true;
    }
    return false;
}

void CheckpointSource::pass_over(const std::string& linear) {
    for (const StoredPart& part : parts_.of(linear)) read_names_.insert(part.whole);
    for (const std::string_view name : checkpoint_.names()) {
        if (name.starts_with(linear) && name.substr(linear.size()).starts_with('.')) {
            read_names_.emplace(name);
        }
    }
}

std::vector<std::string> CheckpointSource::unread() const {
    std::vector<std::string> names;
    for (const std::string_view name : checkpoint_.names()) {
        if (!read_names_.contains(name)) names.emplace_back(name);
    }
    return names;
}

}  // namespace nvllm
