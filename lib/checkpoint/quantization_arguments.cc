// compressed-tensors' argument objects, read and written.
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "lib/checkpoint/quantization_fields.h"

namespace nvllm {
namespace {

using Json = nlohmann::json;
constexpr int64_t kMaxGroup = int64_t{1} << 30;

struct StrategyName {
    QuantizationStrategy strategy;
    const char* name;
};
constexpr std::array<StrategyName, 7> kStrategies = {{
    {QuantizationStrategy::tensor, "tensor"},
    {QuantizationStrategy::channel, "channel"},
    {QuantizationStrategy::group, "group"},
    {QuantizationStrategy::block, "block"},
    {QuantizationStrategy::token, "token"},
    {QuantizationStrategy::tensor_group, "tensor_group"},
    {QuantizationStrategy::attn_head, "attn_head"},
}};

std::optional<QuantizationBlock> block_of_text(const std::string& text) {
    QuantizationBlock block;
    const char* end = text.data() + text.size();
    const auto rows = std::from_chars(text.data(), end, block.rows);
    if (rows.ec != std::errc() || rows.ptr == end || *rows.ptr != 'x') return std::nullopt;
    const auto columns = std::from_chars(rows.ptr + 1, end, block.columns);
    if (columns.ec != std::errc() || columns.ptr != end) return std::nullopt;
    return block;
}

std::optional<QuantizationBlock> read_block(const ConfigFields& fields, const char* key) {
    const Json* value = fields.find(key);
    if (value == nullptr) return std::nullopt;
    std::optional<QuantizationBlock> block;
    if (value->is_string()) {
        block = block_of_text(value->get<std::string>());
    } else if (const std::vector<int64_t> sizes = fields.integers(key); sizes.size() == 2) {
        block = QuantizationBlock{sizes[0], sizes[1]};
    }
    const auto sane = [](int64_t size) { return size >= 1 && size <= kMaxGroup; };
    if (!block || !sane(block->rows) || !sane(block->columns)) {
        fields.refuse(key, "two sizes [rows, columns] are expected");
    }
    return block;
}

QuantizationStrategy read_strategy(const ConfigFields& fields,
                                   const std::optional<int64_t>& group_size) {
    const std::optional<std::string> name = fields.text("strategy");
    if (!name) {
        if (!group_size) return QuantizationStrategy::tensor;
        return *group_size > 0 ? QuantizationStrategy::group : QuantizationStrategy::channel;
    }
    for (const StrategyName& row : kStrategies) {
        if (*name == row.name) return row.strategy;
    }
    fields.refuse("strategy",
                  "tensor, channel, group, block, token, tensor_group or attn_head is expected");
}

DynamicScales read_dynamic(const ConfigFields& fields) {
    const Json* value = fields.find("dynamic");
    if (value != nullptr && value->is_string()) {
        if (*fields.text("dynamic") == "local") return DynamicScales::local;
        fields.refuse("dynamic", "true, false or \"local\" is expected");
    }
    return fields.boolean("dynamic").value_or(false) ? DynamicScales::yes : DynamicScales::no;
}

ActivationOrder read_order(const ConfigFields& fields) {
    const Json* value = fields.find("actorder");
    if (value == nullptr) return ActivationOrder::none;
    if (value->is_boolean()) {
        return value->get<bool>() ? ActivationOrder::group : ActivationOrder::none;
    }
    const std::string name = *fields.text("actorder");
    if (name == "group" || name == "dynamic") return ActivationOrder::group;
    if (name == "weight" || name == "static") return ActivationOrder::weight;
    fields.refuse("actorder", "group, weight or nothing is expected");
}

// Observers of kinds that are not known here are of those who made the file.
void read_observer(const ConfigFields& fields, QuantizationArguments& arguments) {
    const Json* const name = fields.find("observer");
    if (name != nullptr && name->is_string()) set_observer(arguments, name->get<std::string>());
    const Json* const options = fields.find("observer_kwargs");
    if (arguments.range_share != kMovingRangeShare || options == nullptr || !options->is_object()) {
        return;
    }
    const auto share = options->find("averaging_constant");
    if (share == options->end()) return;
    if (!share->is_number() || *share < 0.0 || *share > 1.0) {
        fields.refuse("observer_kwargs", "averaging_constant is a number from 0 to 1");
    }
    arguments.range_share = share->get<double>();
}

// The observer of ranges, where there are any to observe and it is not what a reader would take.
void add_observer(const QuantizationArguments& arguments, nlohmann::ordered_json& json) {
    if (arguments.dynamic == DynamicScales::yes || arguments.range_share == kMovingRangeShare) {
        return;
    }
    json["observer"] = !arguments.range_share          ? "static_minmax"
                       : *arguments.range_share == 1.0 ? "memoryless_minmax"
                                                       : "minmax";
    if (arguments.range_share.value_or(1.0) < 1.0) {
        json["observer_kwargs"] = {{"averaging_constant", *arguments.range_share}};
    }
}

NumberKind read_kind(const ConfigFields& fields) {
    const std::string type = fields.text("type").value_or("int");
    if (type == "int") return NumberKind::integer;
    if (type == "float") return NumberKind::floating;
    fields.refuse("type", "int or float is expected");
}

void check_together(const ConfigFields& fields, const QuantizationArguments& arguments) {
    const bool grouped = arguments.strategy == QuantizationStrategy::group ||
                         arguments.strategy == QuantizationStrategy::tensor_group;
    if (grouped && !arguments.group_size) {
        fields.refuse("group_size", "groups need a size above 0");
    }
    if (arguments.strategy == QuantizationStrategy::block && !arguments.block) {
        fields.refuse("block_structure", "blocks need their sizes [rows, columns]");
    }
    if (arguments.kind == NumberKind::floating && arguments.bits != 4 && arguments.bits != 8) {
        fields.refuse("num_bits", "numbers of type float have 4 or 8");
    }
    if (arguments.kind == NumberKind::floating && !arguments.symmetric) {
        fields.refuse("symmetric", "numbers of type float are symmetric");
    }
}

}  // namespace

bool set_observer(QuantizationArguments& arguments, std::string_view name) {
    if (name == "minmax") {
        arguments.range_share = kMovingRangeShare;
    } else if (name == "memoryless_minmax") {
        arguments.range_share = 1.0;
    } else if (name == "static_minmax") {
        arguments.range_share.reset();
    } else {
        return false;
    }
    return true;
}

QuantizationArguments read_quantization_arguments(const ConfigFields& fields) {
    QuantizationArguments arguments;
    arguments.bits = static_cast<int>(fields.integer("num_bits", 1, 8).value_or(8));
    arguments.kind = read_kind(fields);
    arguments.symmetric = fields.boolean("symmetric").value_or(true);
    const std::optional<int64_t> group_size = fields.integer("group_size", -1, kMaxGroup);
    arguments.strategy = read_strategy(fields, group_size);
    if (group_size && *group_size > 0) arguments.group_size = group_size;
    arguments.block = read_block(fields, "block_structure");
    arguments.dynamic = read_dynamic(fields);
    arguments.actorder = read_order(fields);
    read_observer(fields, arguments);
    // Older files name no type of scales; groups of 32 floats are MX all the same.
    const std::optional<std::string> scales = fields.text("scale_dtype");
    const bool mx_shape = arguments.kind == NumberKind::floating &&
                          arguments.strategy == QuantizationStrategy::group &&
                          arguments.group_size == 32;
    arguments.scales_are_powers_of_two =
        mx_shape && (arguments.bits == 4 || scales == "torch.uint8" || scales == "uint8");
    check_together(fields, arguments);
    return arguments;
}

nlohmann::ordered_json quantization_arguments_json(const QuantizationArguments& arguments) {
    nlohmann::ordered_json json;
    json["num_bits"] = arguments.bits;
    json["type"] = arguments.kind == NumberKind::integer ? "int" : "float";
    json["symmetric"] = arguments.symmetric;
    if (arguments.group_size) json["group_size"] = *arguments.group_size;
    for (const StrategyName& row : kStrategies) {
        if (row.strategy == arguments.strategy) json["strategy"] = row.name;
    }
    if (arguments.block) {
        json["block_structure"] = {arguments.block->rows, arguments.block->columns};
    }
    json["dynamic"] = arguments.dynamic == DynamicScales::yes;
    if (arguments.dynamic == DynamicScales::local) json["dynamic"] = "local";
    if (arguments.actorder != ActivationOrder::none) {
        json["actorder"] = arguments.actorder == ActivationOrder::group ? "group" : "weight";
    }
    add_observer(arguments, json);
    const char* scale_type = nullptr;
    if (arguments.scales_are_powers_of_two) scale_type = "torch.uint8";
    if (arguments.strategy == QuantizationStrategy::tensor_group) {
        scale_type = "torch.float8_e4m3fn";
    }
    if (scale_type != nullptr) {
        json["scale_dtype"] = scale_type;
        json["zp_dtype"] = scale_type;
    }
    return json;
}

}  // namespace nvllm
