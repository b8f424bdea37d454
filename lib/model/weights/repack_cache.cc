// What a packed linear depends on, as text; the file that is named after it; what it says of each
// linear.
#include "lib/model/weights/repack_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "kernels/error.h"
#include "lib/base/digest.h"
#include "lib/base/json.h"
#include "lib/base/log.h"

namespace nvllm {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIdentityKey = "nanovllm.repacked";

// A checkpoint that was written again has other times, even with the same sizes.
std::string identity_of(const Checkpoint& checkpoint, DType compute_type) {
    std::string text =
        fmt::format("packing {}, products {}", ops::kPackingVersion, dtype_name(compute_type));
    for (const auto& file : checkpoint.files()) {
        const fs::path path = fs::canonical(file->path());
        text += fmt::format("\n{} {} {}", path.string(), file->bytes().size(),
                            fs::last_write_time(path).time_since_epoch().count());
    }
    return text;
}

std::string packed_name(const std::string& linear) { return linear + "/packed"; }
std::string columns_name(const std::string& linear) { return linear + "/columns"; }

// What is no tensor of a linear.
std::string described(const ops::QuantizedWeight& weight) {
    const ops::QuantizedLayout& layout = weight.layout;
    const ops::ActivationRounding& rounding = weight.activations;
    const nlohmann::json object = {{"code", static_cast<int>(layout.code)},
                                   {"out", layout.out},
                                   {"in", layout.in},
                                   {"group_size", layout.group_size},
                                   {"has_zero_points", layout.has_zero_points},
                                   {"scale_type", dtype_name(layout.scale_type)},
                                   {"factor", weight.factor},
                                   {"x_code", static_cast<int>(rounding.code)},
                                   {"x_group_size", rounding.group_size},
                                   {"x_scale", rounding.scale},
                                   {"x_global_scale", rounding.global_scale},
                                   {"x_powers_of_two", rounding.powers_of_two}};
    return write_json(object);
}

// Throws what JSON throws, and bad_data.
ops::QuantizedWeight read_description(const std::string& text, const std::string& file) {
    const nlohmann::json object = parse_json(text, file);
    ops::QuantizedWeight weight;
    ops::QuantizedLayout& layout = weight.layout;
    const auto scale_type = dtype_from_name(object.at("scale_type").get<std::string>());
    const int code = object.at("code").get<int>();
    const int x_code = object.at("x_code").get<int>();
    if (!scale_type || code < 0 || code >= ops::kNumWeightFormats || x_code < 0 ||
        x_code >= ops::kNumActivationFormats) {
        throw Error(ErrorKind::bad_data, file + ": no description of a repacked linear");
    }
    layout.code = static_cast<ops::WeightFormat>(code);
    layout.out = object.at("out").get<int64_t>();
    layout.in = object.at("in").get<int64_t>();
    layout.group_size = object.at("group_size").get<int64_t>();
    layout.has_zero_points = object.at("has_zero_points").get<bool>();
    layout.scale_type = *scale_type;
    weight.factor = object.at("factor").get<float>();
    weight.activations.code = static_cast<ops::ActivationFormat>(x_code);
    weight.activations.group_size = object.at("x_group_size").get<int64_t>();
    weight.activations.scale = object.at("x_scale").get<float>();
    weight.activations.global_scale = object.at("x_global_scale").get<float>();
    weight.activations.powers_of_two = object.at("x_powers_of_two").get<bool>();
    return weight;
}

// A tensor of the file with these many values of a type; empty: there is none such.
Tensor tensor_of(const std::shared_ptr<const SafetensorsFile>& file, const std::string& name,
                 DType dtype, int64_t count) {
    const SafetensorsEntry* const entry = file->find(name);
    if (entry == nullptr || entry->dtype != dtype || entry->rank != 1) return {};
    const ConstTensorView view = file->view(*entry);
    return view.numel() == count ? Tensor::borrow(view, file) : Tensor();
}

bool are_columns(const Tensor& columns, int64_t in) {
    const auto* const values = columns.view().as<int32_t>();
    return std::all_of(values, values + in,
                       [&](int32_t column) { return column >= 0 && column < in; });
}

}  // namespace

RepackCache::RepackCache(const fs::path& folder, const Checkpoint& checkpoint, DType compute_type)
    : identity_(identity_of(checkpoint, compute_type)) {
    std::error_code error;
    fs::create_directories(folder, error);
    if (error) {
        throw Error(ErrorKind::cannot_create,
                    fmt::format("{}: cannot make the folder for repacked weights: {}",
                                folder.string(), error.message()));
    }
    // Of two models with one digest, the one that is there is not used: open() compares.
    path_ = folder /
            fmt::format("repacked-{:016x}.safetensors", digest(identity_.data(), identity_.size()));
    if (fs::exists(path_)) open();
}

void RepackCache::open() {
    try {
        auto file = std::make_shared<const SafetensorsFile>(path_);
        const auto found = file->metadata().find(kIdentityKey);
        if (found != file->metadata().end() && found->second == identity_) file_ = std::move(file);
    } catch (const Error& error) {
        log_warning(fmt::format("{}; weights are repacked", error.what()));
    }
}

std::optional<RepackedLinear> RepackCache::find(const std::string& linear, int64_t in,
                                                int64_t out) {
    if (file_ == nullptr) return std::nullopt;
    const auto text = file_->metadata().find(linear);
    if (text == file_->metadata().end()) return std::nullopt;
    RepackedLinear found;
    try {
        found.weight = read_description(text->second, path_.string());
    } catch (const std::exception&) {
        return std::nullopt;
    }
    const ops::QuantizedLayout& layout = found.weight.layout;
    if (layout.in != in || layout.out != out || layout.group_size < 1) return std::nullopt;
    const auto bytes = static_cast<int64_t>(ops::quantized_weight_bytes(layout, {}));
    found.packed = tensor_of(file_, packed_name(linear), DType::u8, bytes);
    if (found.packed.empty()) return std::nullopt;
    if (file_->find(columns_name(linear)) != nullptr) {
        found.columns = tensor_of(file_, columns_name(linear), DType::i32, in);
        if (found.columns.empty() || !are_columns(found.columns, in)) return std::nullopt;
    }
    linears_[linear] = found;
    return found;
}

void RepackCache::add(const std::string& linear, const RepackedLinear& repacked) {
    linears_[linear] = repacked;
    has_new_ = true;
}

void RepackCache::finish() {
    if (!has_new_) return;
    has_new_ = false;
    std::vector<TensorToWrite> tensors;
    std::map<std::string, std::string> metadata = {{kIdentityKey, identity_}};
    for (const auto& [linear, repacked] : linears_) {
        tensors.push_back({packed_name(linear), repacked.packed.view()});
        if (!repacked.columns.empty()) {
            tensors.push_back({columns_name(linear), repacked.columns.view()});
        }
        metadata[linear] = described(repacked.weight);
    }
    try {
        write_safetensors(path_, tensors, metadata);
        log_info(
            fmt::format("{} repacked linears are kept in {}", linears_.size(), path_.string()));
    } catch (const Error& error) {
        log_warning(fmt::format("repacked weights are not kept: {}", error.what()));
    }
}

}  // namespace nvllm
