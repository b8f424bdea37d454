// A solved block as a safetensors file: its matrices as they are, and what belongs to them as JSON.
#include <fmt/format.h>

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/digest.h"
#include "lib/base/json.h"
#include "lib/checkpoint/safetensors.h"
#include "lib/quantize/block_solution.h"

namespace nvllm::quantize {
namespace {

constexpr const char* kKey = "nanovllm.block";
constexpr const char* kDigestKey = "nanovllm.digest";

// Of names and values, in whatever order they come.
class BlockDigest {
  public:
    void add(const std::string& name, const void* data, size_t bytes) {
        sum_ += digest(data, bytes, digest(name.data(), name.size()));
    }
    std::string text() const { return fmt::format("{:016x}", sum_); }

  private:
    uint64_t sum_ = 0;
};

Tensor vector_tensor(const std::vector<float>& values) {
    Tensor tensor = Tensor::allocate(DType::f32, {static_cast<int64_t>(values.size())});
    std::memcpy(tensor.mutable_view().data, values.data(), values.size() * sizeof(float));
    return tensor;
}

// The parts of a linear that are tensors, under names below the linear's index.
std::vector<NamedTensor> tensors_of(const SolvedLinear& solved) {
    const std::string prefix = fmt::format("{}/", solved.linear);
    std::vector<NamedTensor> tensors;
    const auto add = [&](const char* name, const Tensor& tensor) {
        if (!tensor.empty()) tensors.push_back({prefix + name, tensor});
    };
    if (solved.matrix) {
        add("codes", solved.matrix->codes);
        add("scales", solved.matrix->scales);
        add("zero_points", solved.matrix->zero_points);
        add("group_index", solved.matrix->group_index);
    }
    add("dense", solved.dense);
    if (!solved.column_factors.empty()) add("columns", vector_tensor(solved.column_factors));
    if (!solved.row_divisors.empty()) add("rows", vector_tensor(solved.row_divisors));
    return tensors;
}

nlohmann::ordered_json description_of(const SolvedLinear& solved) {
    nlohmann::ordered_json object = {{"linear", solved.linear},
                                     {"record", record_json(solved.record)},
                                     {"turned", static_cast<int>(solved.turned)}};
    if (!solved.matrix) return object;
    const auto set = [&](const char* name, const std::optional<float>& value) {
        if (value) object[name] = *value;
    };
    set("global_scale", solved.matrix->global_scale);
    set("input_scale", solved.matrix->input_scale);
    set("input_global_scale", solved.matrix->input_global_scale);
    return object;
}

class BlockReader {
  public:
    explicit BlockReader(const std::filesystem::path& file)
        : file_(std::make_shared<const SafetensorsFile>(file)) {}

    const SafetensorsFile& file() const { return *file_; }

    Tensor tensor(const std::string& name) const {
        const SafetensorsEntry* const entry = file_->find(name);
        return entry == nullptr ? Tensor() : Tensor::borrow(file_->view(*entry), file_);
    }

    std::vector<float> vector(const std::string& name) const {
        const Tensor values = tensor(name);
        if (values.empty()) return {};
        const float* const begin = values.view().as<float>();
        return {begin, begin + values.view().numel()};
    }

    SolvedLinear linear(const nlohmann::ordered_json& object, const ModelPlan& plan) const {
        SolvedLinear solved;
        solved.linear = object.at("linear").get<size_t>();
        solved.record = parse_record(object.at("record"));
        solved.turned = static_cast<ResidualSide>(object.at("turned").get<int>());
        const std::string prefix = fmt::format("{}/", solved.linear);
        solved.dense = tensor(prefix + "dense");
        solved.column_factors = vector(prefix + "columns");
        solved.row_divisors = vector(prefix + "rows");
        if (!solved.dense.empty()) return solved;
        QuantizedMatrix matrix;
        matrix.arguments = *plan.linear(solved.linear).scheme->weights;
        matrix.codes = tensor(prefix + "codes");
        matrix.scales = tensor(prefix + "scales");
        matrix.zero_points = tensor(prefix + "zero_points");
        matrix.group_index = tensor(prefix + "group_index");
        const auto read = [&](const char* name, std::optional<float>& value) {
            if (object.contains(name)) value = object.at(name).get<float>();
        };
        read("global_scale", matrix.global_scale);
        read("input_scale", matrix.input_scale);
        read("input_global_scale", matrix.input_global_scale);
        solved.matrix = std::move(matrix);
        return solved;
    }

  private:
    std::shared_ptr<const SafetensorsFile> file_;
};

}  // namespace

nlohmann::ordered_json record_json(const LinearRecord& record) {
    return {{"name", record.name},
            {"method", record.method},
            {"format", record.format},
            {"in", record.in},
            {"out", record.out},
            {"bits_per_weight", record.bits_per_weight},
            {"sparsity", record.sparsity},
            {"dampening", record.dampening},
            {"relative_error", record.relative_error},
            {"error_is_of_output", record.error_is_of_output}};
}

LinearRecord parse_record(const nlohmann::ordered_json& object) {
    LinearRecord record;
    record.name = object.at("name").get<std::string>();
    record.method = object.at("method").get<std::string>();
    record.format = object.at("format").get<std::string>();
    record.in = object.at("in").get<int64_t>();
    record.out = object.at("out").get<int64_t>();
    record.bits_per_weight = object.at("bits_per_weight").get<double>();
    record.sparsity = object.at("sparsity").get<double>();
    record.dampening = object.at("dampening").get<double>();
    record.relative_error = object.at("relative_error").get<double>();
    record.error_is_of_output = object.at("error_is_of_output").get<bool>();
    return record;
}

void save_block(const SolvedBlock& block, const std::filesystem::path& file) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    std::vector<NamedTensor> tensors;
    for (const SolvedLinear& solved : block.linears) {
        list.push_back(description_of(solved));
        for (NamedTensor& tensor : tensors_of(solved)) tensors.push_back(std::move(tensor));
    }
    for (const NamedTensor& other : block.others) {
        tensors.push_back({"=" + other.name, other.tensor});
    }
    std::vector<TensorToWrite> views;
    for (const NamedTensor& tensor : tensors) views.push_back({tensor.name, tensor.tensor.view()});
    const std::string text = write_json(list);
    BlockDigest sum;
    sum.add(kKey, text.data(), text.size());
    for (const TensorToWrite& view : views) {
        sum.add(view.name, view.view.data,
                static_cast<size_t>(view.view.numel()) * dtype_bytes(view.view.dtype));
    }
    write_safetensors(file, views, {{kKey, text}, {kDigestKey, sum.text()}});
}

void check_block(const std::filesystem::path& path) {
    const SafetensorsFile file(path);
    BlockDigest sum;
    for (const SafetensorsEntry& entry : file.entries()) {
        sum.add(entry.name, file.bytes().data() + entry.begin, entry.end - entry.begin);
    }
    const auto text = file.metadata().find(kKey);
    const auto digest = file.metadata().find(kDigestKey);
    if (text != file.metadata().end()) sum.add(kKey, text->second.data(), text->second.size());
    if (digest != file.metadata().end() && digest->second == sum.text()) return;
    throw Error(ErrorKind::bad_data,
                path.string() + ": is damaged; remove it, and --resume solves this block again");
}

SolvedBlock load_block(const std::filesystem::path& file, const HookedModel&,
                       const ModelPlan& plan) {
    const BlockReader reader(file);
    const auto& metadata = reader.file().metadata();
    const auto found = metadata.find(kKey);
    if (found == metadata.end()) {
        throw Error(ErrorKind::bad_data, file.string() + ": is no part of an interrupted run");
    }
    SolvedBlock block;
    try {
        for (const auto& object : parse_ordered_json(found->second, file.string())) {
            block.linears.push_back(reader.linear(object, plan));
        }
    } catch (const nlohmann::json::exception& fault) {
        throw Error(ErrorKind::bad_data, fmt::format("{}: {}", file.string(), fault.what()));
    }
    for (const SafetensorsEntry& entry : reader.file().entries()) {
        if (!entry.name.starts_with('=')) continue;
        block.others.push_back({entry.name.substr(1), reader.tensor(entry.name)});
    }
    return block;
}

}  // namespace nvllm::quantize
