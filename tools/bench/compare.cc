// nvllm-bench compare.
#include "lib/measure/compare.h"

#include <nlohmann/json.hpp>

#include "lib/base/file.h"
#include "lib/base/json.h"
#include "tools/bench/bench.h"

namespace nvllm::bench {
namespace {

struct Options {
    std::filesystem::path a, b;
    uint64_t seed = 0;
    std::optional<std::filesystem::path> output_json;
};

OptionList<Options> own_options() {
    OptionList<Options> list("compare");
    list.group("Results");
    list.add("a", &Options::a, "The result to compare with, as --output-json wrote it.",
             value_name("A.json"), positional());
    list.add("b", &Options::b, "The result to judge.", value_name("B.json"), positional());
    list.add("seed", &Options::seed, "Of the bootstrap.");
    list.add("output-json", &Options::output_json, kOutputJsonHelp, value_name("FILE"));
    return list;
}

nlohmann::ordered_json read_result(const std::filesystem::path& file) {
    nlohmann::ordered_json value = parse_ordered_json(read_file(file), file.string());
    if (!value.is_object()) {
        throw Error(ErrorKind::bad_data, file.string() + ": not a result: no JSON object");
    }
    return value;
}

}  // namespace

int run_compare(const Invocation& invocation) {
    Options own;
    const auto own_list = own_options();
    OptionSet options;
    options.add(own_list, own);
    if (answered(invocation, options)) return 0;
    if (own.a.empty() || own.b.empty()) {
        throw Error(ErrorKind::usage, "two results are needed: A.json and B.json");
    }
    const auto rows = compare_results(read_result(own.a), read_result(own.b), own.seed);
    if (rows.empty()) {
        throw Error(ErrorKind::bad_data,
                    own.a.string() + " and " + own.b.string() + ": no figure that both have");
    }
    check_writable(own.output_json);
    nlohmann::ordered_json object;
    object["comparisons"] = comparison_json(rows);
    return publish(invocation, nullptr, comparison_table(rows), std::move(object), own.output_json);
}

}  // namespace nvllm::bench
