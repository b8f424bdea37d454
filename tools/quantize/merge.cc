// nvllm-quantize --merge-lora: an adapter's base model with the adapter in its weights.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "lib/base/units.h"
#include "lib/cli/main_guard.h"
#include "lib/quantize/adapter_merge.h"
#include "tools/quantize/quantize.h"

namespace nvllm::quantize_tool {
namespace {

// What else was asked for would be left undone.
void check_options(const OptionSet& given) {
    constexpr std::array kHeeded = {"model",   "output",  "merge-lora", "resume",
                                    "restart", "threads", "dry-run"};
    for (const BoundOption& option : given.all()) {
        const bool is_heeded =
            std::find(kHeeded.begin(), kHeeded.end(), option.field().name) != kHeeded.end();
        if (is_heeded || option.origin() == OptionOrigin::built_in) continue;
        throw Error(ErrorKind::usage,
                    fmt::format("{}: --merge-lora does not quantize: merge first, and quantize "
                                "what comes of it",
                                option.where()));
    }
}

}  // namespace

int run_merge(const QuantizeOptions& options, const std::filesystem::path& model,
              const OptionSet& given) {
    check_options(given);
    const quantize::MergeOptions merge_options = options.merge(model);
    quantize::AdapterMerge merge(merge_options);
    if (!merge.note().empty()) say(merge.note());
    const std::string head =
        merge.unties() ? "\nhead       a matrix of its own, no longer the embedding" : "";
    if (options.dry_run) {
        write_output(
            fmt::format("output     {}\nmodules    {} merge into {} tensors{}\nweights    "
                        "{}\n",
                        merge_options.output.string(), merge.num_modules(), merge.num_changed(),
                        head, describe_bytes(merge.output_bytes())));
        return 0;
    }
    const quantize::WrittenSizes sizes = merge.run();
    write_output(fmt::format("{}\nmodules    {} merged into {} tensors{}\nweights    {}\n",
                             merge_options.output.string(), merge.num_modules(),
                             merge.num_changed(), head, describe_bytes(sizes.written_bytes)));
    return 0;
}

}  // namespace nvllm::quantize_tool
