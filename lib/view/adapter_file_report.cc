// An adapter's modules, counted by their last names.
#include "lib/view/adapter_file_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "lib/base/units.h"
#include "lib/view/text_table.h"

namespace nvllm::view {
namespace {

struct Summary {
    std::map<std::string, int64_t> by_name;  // "q_proj"
    std::set<int64_t> ranks;
    std::set<std::string> types;
    int64_t parameters = 0;
};

Summary summarized(const AdapterFile& adapter) {
    Summary summary;
    for (const AdapterModule& module : adapter.modules) {
        ++summary.by_name[module.name.substr(module.name.rfind('.') + 1)];
        summary.ranks.insert(module.b.dim(1));
        summary.types.insert(dtype_name(module.a.dtype));
        summary.parameters += module.a.numel() + module.b.numel();
    }
    for (const auto& [name, view] : adapter.replaced) summary.parameters += view.numel();
    return summary;
}

std::vector<std::string> names_of_replaced(const AdapterFile& adapter) {
    std::vector<std::string> names;
    for (const auto& [name, view] : adapter.replaced) names.push_back(name);
    return names;
}

std::string kind_of(const AdapterConfig& config) {
    std::string kind = config.dora ? "DoRA" : "LoRA";
    if (config.rank_stabilized) kind += ", rank-stabilized (rsLoRA)";
    return kind;
}

void add_modules(const AdapterFile& adapter, TextSheet& sheet) {
    sheet.gap();
    std::vector<std::vector<std::string>> rows = {{"module", "rank", "in", "out", "scale", "type"}};
    for (const AdapterModule& module : adapter.modules) {
        rows.push_back({module.name, std::to_string(module.b.dim(1)),
                        std::to_string(module.a.dim(1)), std::to_string(module.b.dim(0)),
                        fmt::format("{:g}", module.scale), dtype_name(module.a.dtype)});
    }
    sheet.table(rows, "<>>>><");
}

}  // namespace

std::string adapter_file_text(const AdapterFile& adapter, bool lists_modules) {
    const Summary summary = summarized(adapter);
    TextSheet sheet;
    sheet.row("adapter", adapter.path.parent_path().string());
    sheet.row("kind", kind_of(adapter.config));
    const std::string& base = adapter.config.base_model;
    sheet.row("base model", base.empty() ? "not named" : base);
    sheet.row("rank",
              fmt::format("{}, alpha {:g}", fmt::join(summary.ranks, ", "), adapter.config.alpha));
    std::vector<std::string> names;
    for (const auto& [name, count] : summary.by_name) {
        names.push_back(fmt::format("{} x {}", count, name));
    }
    sheet.row("modules", names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
    if (!adapter.replaced.empty()) {
        sheet.row("replaces", fmt::format("{}", fmt::join(names_of_replaced(adapter), ", ")));
    }
    sheet.row("parameters",
              fmt::format("{} in {}, {}", with_separators(summary.parameters),
                          fmt::join(summary.types, " and "), describe_bytes(adapter.bytes())));
    if (!adapter.config.unknown_keys.empty()) {
        sheet.row("not used", fmt::format("{}", fmt::join(adapter.config.unknown_keys, ", ")));
    }
    if (lists_modules) add_modules(adapter, sheet);
    return sheet.text();
}

nlohmann::ordered_json adapter_file_json(const AdapterFile& adapter, bool lists_modules) {
    const Summary summary = summarized(adapter);
    nlohmann::ordered_json json = {{"schema", "nvllm-inspect.adapter/1"},
                                   {"path", adapter.path.parent_path().string()},
                                   {"kind", adapter.config.dora ? "dora" : "lora"},
                                   {"rank_stabilized", adapter.config.rank_stabilized},
                                   {"base_model", adapter.config.base_model},
                                   {"ranks", summary.ranks},
                                   {"alpha", adapter.config.alpha},
                                   {"modules_by_name", summary.by_name},
                                   {"replaced", names_of_replaced(adapter)},
                                   {"parameters", summary.parameters},
                                   {"types", summary.types},
                                   {"bytes", adapter.bytes()},
                                   {"unknown_keys", adapter.config.unknown_keys}};
    if (!lists_modules) return json;
    json["modules"] = nlohmann::ordered_json::array();
    for (const AdapterModule& module : adapter.modules) {
        json["modules"].push_back({{"name", module.name},
                                   {"rank", module.b.dim(1)},
                                   {"in", module.a.dim(1)},
                                   {"out", module.b.dim(0)},
                                   {"scale", module.scale},
                                   {"dtype", dtype_name(module.a.dtype)}});
    }
    return json;
}

}  // namespace nvllm::view
