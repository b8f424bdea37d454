// Mapped safetensors files and the atomic writer.
#include "lib/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

#include "kernels/error.h"
#include "lib/checkpoint/quoted.h"

namespace nvllm {
namespace {

// A FIFO or a device would make open() wait or map() lie about its size.
const std::filesystem::path& regular_file(const std::filesystem::path& path) {
    std::error_code ignored;
    const std::filesystem::file_status status = std::filesystem::status(path, ignored);
    if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
        throw Error(ErrorKind::bad_data, path.string() + ": not a regular file");
    }
    return path;
}

const char* header_dtype(DType dtype) {
    switch (dtype) {
        case DType::f32:
            return "F32";
        case DType::f16:
            return "F16";
        case DType::bf16:
            return "BF16";
        case DType::f64:
            return "F64";
        case DType::i64:
            return "I64";
        case DType::i32:
            return "I32";
        case DType::i16:
            return "I16";
        case DType::i8:
            return "I8";
        case DType::u64:
            return "U64";
        case DType::u32:
            return "U32";
        case DType::u16:
            return "U16";
        case DType::u8:
            return "U8";
        case DType::boolean:
            return "BOOL";
        case DType::f8_e4m3:
            return "F8_E4M3";
        case DType::f8_e5m2:
            return "F8_E5M2";
    }
    NVLLM_CHECK(false, "a dtype without a name");
    return "";
}

size_t view_bytes(const ConstTensorView& view) {
    return static_cast<size_t>(view.numel()) * dtype_bytes(view.dtype);
}

// The length field and the JSON, padded with spaces to a multiple of 64.
std::string header_bytes(std::span<const TensorToWrite* const> order,
                         const std::map<std::string, std::string>& metadata) {
    nlohmann::ordered_json header = nlohmann::ordered_json::object();
    if (!metadata.empty()) header["__metadata__"] = metadata;
    uint64_t offset = 0;
    for (const TensorToWrite* tensor : order) {
        NVLLM_CHECK(tensor->view.contiguous(), "only contiguous tensors are written");
        const std::vector<int64_t> shape(tensor->view.shape.begin(),
                                         tensor->view.shape.begin() + tensor->view.rank);
        const uint64_t end = offset + view_bytes(tensor->view);
        header[tensor->name] = {{"dtype", header_dtype(tensor->view.dtype)},
                                {"shape", shape},
                                {"data_offsets", {offset, end}}};
        offset = end;
    }
    std::string text = header.dump();
    text.resize((8 + text.size() + 63) / 64 * 64 - 8, ' ');
    const uint64_t length = text.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, sizeof(length));
    return bytes + text;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::filesystem::path& path)
    : file_(regular_file(path)), header_(parse_safetensors_header(file_.bytes(), path.string())) {}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
    const auto found = std::lower_bound(
        header_.entries.begin(), header_.entries.end(), name,
        [](const SafetensorsEntry& entry, std::string_view wanted) { return entry.name < wanted; });
    return found != header_.entries.end() && found->name == name ? &*found : nullptr;
}

ConstTensorView safetensors_view(const SafetensorsEntry& entry, std::span<const std::byte> file,
                                 const std::string& file_name) {
    if (entry.rank > kMaxRank) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: tensor {} is {}; at most {} axes are supported", file_name,
                                quoted_for_message(entry.name), entry.describe(), kMaxRank));
    }
    ViewLayout layout;
    layout.dtype = entry.dtype;
    layout.rank = entry.rank;
    int64_t stride = 1;
    for (size_t axis = entry.rank; axis-- > 0;) {
        layout.shape[axis] = entry.shape[axis];
        layout.strides[axis] = stride;
        // An empty tensor may have any other dimensions; their product means nothing then.
        if (__builtin_mul_overflow(stride, entry.shape[axis], &stride)) stride = 0;
    }
    return {file.data() + entry.begin, layout};
}

void write_safetensors(const std::filesystem::path& path, std::span<const TensorToWrite> tensors,
                       const std::map<std::string, std::string>& metadata) {
    std::vector<const TensorToWrite*> order;
    for (const TensorToWrite& tensor : tensors) order.push_back(&tensor);
    std::stable_sort(order.begin(), order.end(),
                     [](const TensorToWrite* a, const TensorToWrite* b) {
                         return dtype_bytes(a->view.dtype) > dtype_bytes(b->view.dtype);
                     });
    const std::string header = header_bytes(order, metadata);
    NewFile file(path);
    file.write(header.data(), header.size());
    for (const TensorToWrite* tensor : order) {
        file.write(tensor->view.data, view_bytes(tensor->view));
    }
    file.publish();
}

}  // namespace nvllm
