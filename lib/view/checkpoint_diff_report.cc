// Differences of checkpoints as text and as JSON.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/view/checkpoint_diff.h"
#include "lib/view/text_table.h"

namespace nvllm::view {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxRows = 40;  // of each kind

std::string describe(const TensorDifference& row) {
    if (!row.values) return "";
    const ValueDifference& values = *row.values;
    if (values.bytes_equal) return "bytes equal";
    if (!values.comparable) return "bytes differ";
    if (values.num_different == 0) return "values equal, bytes not";
    return fmt::format("{} values differ, by at most {:.4g}, relative {:.4g}{}",
                       values.num_different, values.max_absolute, values.max_relative,
                       values.has_nan ? ", NaN on one side" : "");
}

void add_names(const std::vector<std::string>& names, const std::string& heading,
               TextSheet& sheet) {
    if (names.empty()) return;
    sheet.gap();
    sheet.line(fmt::format("{}: {}", heading, names.size()));
    for (size_t i = 0; i < std::min(names.size(), kMaxRows); ++i) sheet.line("  " + names[i]);
    if (names.size() > kMaxRows) sheet.line(fmt::format("  and {} more", names.size() - kMaxRows));
}

Json values_json(const ValueDifference& values) {
    return {{"bytes_equal", values.bytes_equal},     {"comparable", values.comparable},
            {"num_different", values.num_different}, {"most_absolute", values.max_absolute},
            {"most_relative", values.max_relative},  {"nan_on_one_side", values.has_nan}};
}

}  // namespace

std::string difference_text(const CheckpointDifference& difference) {
    TextSheet sheet;
    sheet.row("a", difference.one);
    sheet.row("b", difference.other);
    const char* looked = difference.compared_values
                             ? "names, types, shapes and bytes"
                             : "names, types and shapes (--values compares bytes too)";
    sheet.row("looked at",
              fmt::format("config.json; {} tensors in both: {}", difference.num_in_both, looked));
    if (difference.equal()) {
        sheet.row("outcome", "no difference");
        return sheet.text();
    }
    if (!difference.config.empty()) {
        sheet.gap();
        sheet.line(fmt::format("config.json: {} differences", difference.config.size()));
        std::vector<std::vector<std::string>> rows;
        for (const ConfigDifference& row : difference.config) {
            rows.push_back({row.key, row.one.empty() ? "-" : row.one.substr(0, 60),
                            row.other.empty() ? "-" : row.other.substr(0, 60)});
        }
        sheet.table(rows, "<<<");
    }
    add_names(difference.only_in_one, "tensors only in a", sheet);
    add_names(difference.only_in_other, "tensors only in b", sheet);
    if (!difference.tensors.empty()) {
        sheet.gap();
        sheet.line(fmt::format("tensors that differ: {}", difference.tensors.size()));
        for (size_t i = 0; i < std::min(difference.tensors.size(), kMaxRows); ++i) {
            const TensorDifference& row = difference.tensors[i];
            sheet.line("  " + row.name + ": " + row.one +
                       (row.same_kind ? "" : " against " + row.other));
            if (row.values) sheet.line("    " + describe(row));
        }
        if (difference.tensors.size() > kMaxRows) {
            sheet.line(fmt::format("  and {} more", difference.tensors.size() - kMaxRows));
        }
    }
    return sheet.text();
}

nlohmann::ordered_json difference_json(const CheckpointDifference& difference) {
    const auto side = [](const std::string& text) {
        return text.empty() ? Json(nullptr) : Json::parse(text);
    };
    Json config = Json::array();
    for (const ConfigDifference& row : difference.config) {
        config.push_back({{"key", row.key}, {"a", side(row.one)}, {"b", side(row.other)}});
    }
    Json tensors = Json::array();
    for (const TensorDifference& row : difference.tensors) {
        Json json = {{"name", row.name}, {"a", row.one}, {"b", row.other}};
        if (row.values) json["values"] = values_json(*row.values);
        tensors.push_back(std::move(json));
    }
    return {{"schema", "nvllm-inspect.diff/1"},
            {"a", difference.one},
            {"b", difference.other},
            {"equal", difference.equal()},
            {"compared_values", difference.compared_values},
            {"tensors_in_both", difference.num_in_both},
            {"config", config},
            {"only_in_a", difference.only_in_one},
            {"only_in_b", difference.only_in_other},
            {"tensors", tensors}};
}

}  // namespace nvllm::view
