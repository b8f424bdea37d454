// Walks stages and modifiers; every field is in one table.
#include "lib/quantize/recipe_file.h"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/option_values.h"

namespace nvllm::quantize {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxRecipeBytes = uint64_t{1} << 20;
constexpr int kMaxDepth = 16;

// A modifier of llm-compressor, the method it is here, and what it leaves out.
struct ModifierRow {
    const char* name;
    const char* method;  // null: it changes nothing here
    bool quantizes;
};
constexpr std::array<ModifierRow, 7> kModifiers = {{
    {"QuantizationModifier", "rtn", true},
    {"GPTQModifier", "gptq", true},
    {"AWQModifier", "awq", true},
    {"SmoothQuantModifier", "smoothquant", false},
    {"SparseGPTModifier", "sparsegpt", false},
    {"MagnitudePruningModifier", "magnitude", false},
    // Zeros are kept by whatever comes after pruning.
    {"ConstantPruningModifier", nullptr, false},
}};

// Fields of how others compute, or of training; a note names those that are given.
constexpr std::array<const char*, 20> kUnheeded = {"offload_device",
                                                   "offload_hessians",
                                                   "sequential_update",
                                                   "sequential_targets",
                                                   "num_calibration_steps",
                                                   "calibration_function",
                                                   "preserve_sparsity_mask",
                                                   "start",
                                                   "end",
                                                   "update",
                                                   "index",
                                                   "group",
                                                   "update_frequency",
                                                   "init_sparsity",
                                                   "mask_type",
                                                   "leave_enabled",
                                                   "batched_quantization",
                                                   "bypass_divisibility_checks",
                                                   "weight_observer",
                                                   "output_observer"};

Json scalar_json(const YAML::Node& node) {
    const std::string& text = node.Scalar();
    if (node.Tag() == "!") return text;  // quoted
    if (text.empty() || text == "null" || text == "~" || text == "None") return nullptr;
    if (text == "true" || text == "True") return true;
    if (text == "false" || text == "False") return false;
    if (const auto integer = parse_integer<int64_t>(text)) return *integer;
    if (const auto number = parse_number(text)) return *number;
    return text;
}

class RecipeReader {
  public:
    explicit RecipeReader(std::string source) : source_(std::move(source)) {}

    ReadRecipe read(const YAML::Node& top) {
        if (!top.IsMap()) fail(top, "a recipe is a mapping of stages, or of modifiers");
        read_mapping(top, 0);
        if (result_.recipe.modifiers.empty()) fail(top, "it names no modifier");
        settle_awq();
        return std::move(result_);
    }

  private:
    [[noreturn]] void fail(const YAML::Node& node, const std::string& what) const {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}:{}: {}", source_, node.Mark().line + 1, what));
    }

    static const ModifierRow* row_of(const std::string& name) {
        for (const ModifierRow& row : kModifiers) {
            if (row.name == name) return &row;
        }
        return nullptr;
    }

    // Stages, their lists of modifiers, and modifiers without either.
    void read_mapping(const YAML::Node& mapping, int depth) {
        for (const auto& entry : mapping) {
            const std::string& name = entry.first.Scalar();
            if (const ModifierRow* const row = row_of(name)) {
                read_modifier(*row, entry.second);
            } else if (name.find("Modif") != std::string::npos) {
                fail(entry.first, unknown("modifier", name, modifier_names()));
            } else if (entry.second.IsMap() && depth < 2) {
                read_mapping(entry.second, depth + 1);
            } else if (name != "run_type" && name != "metadata" && name != "args") {
                fail(entry.first, fmt::format("'{}' is neither a stage nor a modifier", name));
            }
        }
    }

    static std::vector<std::string> modifier_names() {
        std::vector<std::string> names;
        for (const ModifierRow& row : kModifiers) names.emplace_back(row.name);
        return names;
    }

    static std::string unknown(const char* what, const std::string& name,
                               const std::vector<std::string>& names) {
        const auto nearest = name_meant(name, names);
        return fmt::format("unknown {} '{}'{}; there are: {}", what, name,
                           nearest ? "; did you mean " + *nearest + "?" : "",
                           fmt::join(names, ", "));
    }

    Json json_of(const YAML::Node& node, int depth = 0) const {
        if (depth > kMaxDepth) fail(node, "is nested too deeply");
        if (node.IsSequence()) {
            Json list = Json::array();
            for (const auto& item : node) list.push_back(json_of(item, depth + 1));
            return list;
        }
        if (node.IsMap()) {
            Json object = Json::object();
            for (const auto& entry : node) {
                object[entry.first.Scalar()] = json_of(entry.second, depth + 1);
            }
            return object;
        }
        return node.IsScalar() ? scalar_json(node) : Json(nullptr);
    }

    // Fields of other tools that mean one of these.
    static std::optional<std::string> name_meant(const std::string& name,
                                                 const std::vector<std::string>& names) {
        if (name == "structure") return "mask_structure";
        if (name == "zero_point" || name == "symmetric" || name == "sym") {
            return "scheme: W4A16_ASYM (or W4A16), or symmetric among the weights of config_groups";
        }
        if (name == "bits" || name == "num_bits" || name == "w_bit") {
            return "scheme: W4A16 (or W8A16 ...)";
        }
        return nearest_name(name, names);
    }

    // Typed values, with the line in messages.
    double number(const YAML::Node& node, double low, double high) const {
        const Json value = json_of(node);
        if (!value.is_number() || value.get<double>() < low || value.get<double>() > high) {
            fail(node, fmt::format("a number from {} to {} is expected", low, high));
        }
        return value.get<double>();
    }
    bool boolean(const YAML::Node& node) const {
        const Json value = json_of(node);
        if (!value.is_boolean()) fail(node, "true or false is expected");
        return value.get<bool>();
    }
    std::string text(const YAML::Node& node) const {
        if (!node.IsScalar()) fail(node, "a text is expected");
        return node.Scalar();
    }
    std::vector<std::string> texts(const YAML::Node& node) const {
        if (node.IsScalar()) return {node.Scalar()};
        if (!node.IsSequence()) fail(node, "a list of texts is expected");
        std::vector<std::string> list;
        for (const auto& item : node) list.push_back(text(item));
        return list;
    }

    // What belongs together and may stand in any order.
    struct Fields {
        Modifier modifier;
        std::optional<std::string> scheme;
        Json schemes = Json::object();  // scheme: {W4A16: [Linear]}
        Json groups = Json::object();
        YAML::Node groups_node;
        std::optional<ActivationOrder> actorder;
        std::optional<int64_t> group_size;
        std::optional<std::string> input_observer;
    };

    void read_modifier(const ModifierRow& row, const YAML::Node& node) {
        if (row.method == nullptr) {
            result_.notes.push_back(fmt::format("{} changes nothing here", row.name));
            return;
        }
        Fields fields;
        fields.modifier.method = row.method;
        fields.modifier.ignore = {};
        if (std::string_view(row.method) == "gptq") fields.actorder = ActivationOrder::weight;
        if (!node.IsMap() && !node.IsNull()) fail(node, "a modifier is a mapping of its fields");
        for (const auto& entry : node) read_field(row, entry.first, entry.second, fields);
        add_groups(row, node, fields);
        result_.recipe.modifiers.push_back(std::move(fields.modifier));
    }

    void read_field(const ModifierRow& row, const YAML::Node& key, const YAML::Node& value,
                    Fields& fields) {
        using Reader = void (RecipeReader::*)(const YAML::Node&, Fields&);
        struct FieldRow {
            const char* name;
            Reader read;
        };
        static constexpr std::array<FieldRow, 19> kFields = {{
            {"targets", &RecipeReader::read_targets},
            {"ignore", &RecipeReader::read_ignore},
            {"scheme", &RecipeReader::read_scheme},
            {"config_groups", &RecipeReader::read_config_groups},
            {"group_size", &RecipeReader::read_group_size},
            {"actorder", &RecipeReader::read_actorder},
            {"block_size", &RecipeReader::read_block_size},
            {"dampening_frac", &RecipeReader::read_dampening},
            {"smoothing_strength", &RecipeReader::read_strength},
            {"sparsity", &RecipeReader::read_sparsity},
            {"final_sparsity", &RecipeReader::read_sparsity},
            {"mask_structure", &RecipeReader::read_mask},
            {"mappings", &RecipeReader::read_mappings},
            {"n_grid", &RecipeReader::read_grid},
            {"duo_scaling", &RecipeReader::read_duo},
            {"apply_clip", &RecipeReader::read_clip},
            {"kv_cache_scheme", &RecipeReader::read_cache_scheme},
            {"input_observer", &RecipeReader::read_input_observer},
            {"observer", &RecipeReader::read_observers},
        }};
        const std::string& name = key.Scalar();
        if (value.IsNull()) return;
        std::vector<std::string> names;
        for (const FieldRow& field : kFields) {
            if (field.name == name) return (this->*field.read)(value, fields);
            names.emplace_back(field.name);
        }
        for (const char* const known : kUnheeded) {
            if (known != name) continue;
            result_.notes.push_back(fmt::format("{}.{} is not heeded", row.name, name));
            return;
        }
        fail(key, unknown("field", name, names));
    }

    void read_targets(const YAML::Node& value, Fields& fields) {
        fields.modifier.targets = texts(value);
    }
    void read_ignore(const YAML::Node& value, Fields& fields) {
        fields.modifier.ignore = texts(value);
    }
    void read_scheme(const YAML::Node& value, Fields& fields) {
        if (value.IsMap()) {
            fields.schemes = json_of(value);
        } else {
            fields.scheme = text(value);
        }
    }
    void read_config_groups(const YAML::Node& value, Fields& fields) {
        fields.groups = json_of(value);
        fields.groups_node = value;
    }
    void read_group_size(const YAML::Node& value, Fields& fields) {
        fields.group_size = static_cast<int64_t>(number(value, -1.0, 1e9));
    }
    void read_actorder(const YAML::Node& value, Fields& fields) {
        const std::string name = text(value);
        if (name == "group" || name == "dynamic" || name == "true") {
            fields.actorder = ActivationOrder::group;
        } else if (name == "static" || name == "weight") {
            fields.actorder = ActivationOrder::weight;
        } else if (name == "false" || name == "null" || name == "none") {
            fields.actorder = ActivationOrder::none;
        } else {
            fail(value, "static, group or nothing is expected");
        }
    }
    void read_block_size(const YAML::Node& value, Fields& fields) {
        fields.modifier.solver.block_size = static_cast<int64_t>(number(value, 1.0, 65536.0));
    }
    void read_dampening(const YAML::Node& value, Fields& fields) {
        fields.modifier.solver.dampening_frac = number(value, 0.0, 10.0);
    }
    void read_strength(const YAML::Node& value, Fields& fields) {
        fields.modifier.scaling.smoothing_strength = number(value, 0.0, 1.0);
    }
    void read_sparsity(const YAML::Node& value, Fields& fields) {
        fields.modifier.solver.sparsity = number(value, 0.0, 1.0);
    }
    void read_mask(const YAML::Node& value, Fields& fields) {
        fields.modifier.solver.mask = parse_mask_structure(text(value));
    }
    void read_grid(const YAML::Node& value, Fields& fields) {
        fields.modifier.scaling.grid = static_cast<int64_t>(number(value, 1.0, 1000.0));
    }
    void read_duo(const YAML::Node& value, Fields& fields) {
        fields.modifier.scaling.duo_scaling = text(value) == "both" ? true : boolean(value);
    }
    void read_clip(const YAML::Node& value, Fields& fields) {
        fields.modifier.scaling.clips = boolean(value);
    }
    void read_cache_scheme(const YAML::Node& value, Fields& fields) {
        const Json section = {{"kv_cache_scheme", json_of(value)}};
        const QuantizationConfig config = parsed_section(section, value);
        if (!config.has_float8_cache()) {
            fail(value,
                 "keys and values are quantized to {num_bits: 8, type: float, strategy: tensor, "
                 "dynamic: false, symmetric: true} only");
        }
        fields.modifier.kv_cache_scheme = config.kv_cache_scheme();
    }

    // How ranges of inputs with static scales are found.
    void read_input_observer(const YAML::Node& value, Fields& fields) {
        const std::string name = text(value);
        if (QuantizationArguments inputs; set_observer(inputs, name)) {
            fields.input_observer = name;
        } else {
            result_.notes.push_back(fmt::format("observer {} is not heeded", name));
        }
    }
    // {weights: ..., input: ..., output: ...}
    void read_observers(const YAML::Node& value, Fields& fields) {
        if (!value.IsMap()) fail(value, "a mapping of weights, input and output is expected");
        for (const auto& entry : value) {
            const std::string& operand = entry.first.Scalar();
            if (operand == "input") {
                read_input_observer(entry.second, fields);
            } else {
                result_.notes.push_back(fmt::format("observer of {} is not heeded", operand));
            }
        }
    }

    // [[balance ...], smooth], or {smooth_layer, balance_layers}.
    void read_mappings(const YAML::Node& value, Fields& fields) {
        if (!value.IsSequence()) fail(value, "a list of mappings is expected");
        for (const auto& item : value) {
            ScalingMapping mapping;
            if (item.IsSequence() && item.size() == 2) {
                mapping.balance = texts(item[0]);
                mapping.smooth = text(item[1]);
            } else if (item.IsMap() && item["smooth_layer"] && item["balance_layers"]) {
                mapping.balance = texts(item["balance_layers"]);
                mapping.smooth = text(item["smooth_layer"]);
            } else {
                fail(item,
                     "a mapping is [[balance layers], smooth layer], or has smooth_layer and "
                     "balance_layers");
            }
            fields.modifier.scaling.mappings.push_back(std::move(mapping));
        }
    }

    void add_groups(const ModifierRow& row, const YAML::Node& node, Fields& fields) {
        std::vector<QuantizationGroup>& groups = fields.modifier.groups;
        if (fields.scheme) {
            groups.push_back({fields.modifier.targets, preset(node, *fields.scheme)});
        }
        for (const auto& [name, targets] : fields.schemes.items()) {
            if (!targets.is_array())
                fail(node, "scheme: a list of targets is expected for " + name);
            groups.push_back({targets.get<std::vector<std::string>>(), preset(node, name)});
        }
        if (!fields.groups.empty()) add_config_groups(fields);
        const bool has_cache = fields.modifier.kv_cache_scheme.has_value();
        if (row.quantizes && groups.empty() && !has_cache && fields.modifier.method != "awq") {
            fail(node, fmt::format("{} has neither a scheme nor config_groups", row.name));
        }
        if (!row.quantizes && (!groups.empty() || has_cache)) {
            fail(node, fmt::format("{} takes no scheme", row.name));
        }
        for (QuantizationGroup& group : groups) settle(group, fields);
    }

    QuantizationScheme preset(const YAML::Node& node, const std::string& name) const {
        try {
            return find_preset_scheme(name).scheme;
        } catch (const Error& error) {
            fail(node, error.what());
        }
    }

    void add_config_groups(Fields& fields) {
        const Json section = {{"quant_method", "compressed-tensors"},
                              {"config_groups", fields.groups}};
        const QuantizationConfig config = parsed_section(section, fields.groups_node);
        note_observers(fields.groups);
        for (const QuantizationGroup& group : config.groups()) {
            fields.modifier.groups.push_back(group);
        }
    }

    // What compressed-tensors' objects in a recipe say. An unknown one is an error here.
    QuantizationConfig parsed_section(const Json& section, const YAML::Node& node) {
        const std::string place = fmt::format("{}:{}", source_, node.Mark().line + 1);
        QuantizationConfig config = parse_quantization_config(section, place);
        for (const std::string& key : config.unused_keys()) {
            fail(node, fmt::format("unknown field '{}'; a group has targets, weights, "
                                   "input_activations and format",
                                   key));
        }
        result_.notes.insert(result_.notes.end(), config.notes().begin(), config.notes().end());
        return config;
    }

    // Those of weights see all of them, so that every way of following a range is the same.
    void note_observers(const Json& groups) {
        for (const auto& [name, group] : groups.items()) {
            if (!group.is_object()) continue;
            for (const char* const operand : {"weights", "input_activations"}) {
                const auto arguments = group.find(operand);
                if (arguments == group.end() || !arguments->is_object()) continue;
                const std::string observer = arguments->value("observer", Json("minmax")).dump();
                QuantizationArguments ranges;
                const bool is_known = set_observer(ranges, observer.substr(1, observer.size() - 2));
                if (is_known || observer == "null") continue;
                result_.notes.push_back(
                    fmt::format("config_groups.{}.{}: observer {} is not heeded; scales are those "
                                "of the whole range (minmax)",
                                name, operand, observer));
            }
        }
    }

    static void settle(QuantizationGroup& group, const Fields& fields) {
        if (!group.scheme.weights) return;
        QuantizationArguments& weights = *group.scheme.weights;
        if (fields.group_size && *fields.group_size > 0) {
            weights.strategy = QuantizationStrategy::group;
            weights.group_size = *fields.group_size;
        }
        // Order is a matter of second moments; where groups have none, static is the same.
        if (fields.actorder && weights.actorder == ActivationOrder::none) {
            weights.actorder = *fields.actorder;
        }
        if (fields.input_observer && group.scheme.input_activations) {
            set_observer(*group.scheme.input_activations, *fields.input_observer);
        }
    }

    // AWQ's own ignore list counts where a later modifier quantizes: that one has its own.
    void settle_awq() {
        std::vector<Modifier>& modifiers = result_.recipe.modifiers;
        const bool quantizes =
            std::any_of(modifiers.begin(), modifiers.end(),
                        [](const Modifier& modifier) { return !modifier.groups.empty(); });
        const bool scales_alone =
            std::all_of(modifiers.begin(), modifiers.end(), [](const Modifier& modifier) {
                return find_method(modifier.method).solver == nullptr || modifier.method == "awq";
            });
        if (!quantizes && scales_alone) {
            throw Error(ErrorKind::bad_data,
                        fmt::format("{}: it scales channels and quantizes nothing; add a "
                                    "QuantizationModifier or GPTQModifier with a scheme",
                                    source_));
        }
    }

    std::string source_;
    ReadRecipe result_;
};

}  // namespace

ReadRecipe parse_recipe(const std::string& yaml, const std::string& source_name) {
    try {
        return RecipeReader(source_name).read(YAML::Load(yaml));
    } catch (const YAML::Exception& fault) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}:{}: {}", source_name, fault.mark.line + 1, fault.msg));
    }
}

ReadRecipe read_recipe_file(const std::filesystem::path& file) {
    return parse_recipe(read_file(file, kMaxRecipeBytes), file.string());
}

}  // namespace nvllm::quantize
