// Flows by name, and everything about a mapping that would change the model.
#include "lib/quantize/scaling_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "kernels/error.h"
#include "lib/quantize/linear_plan.h"

namespace nvllm::quantize {
namespace {

using Names = std::vector<std::string>;

Names common(const Names& names, const Names& others) {
    Names found;
    std::copy_if(names.begin(), names.end(), std::back_inserter(found), [&](const auto& name) {
        return std::find(others.begin(), others.end(), name) != others.end();
    });
    return found;
}

Names without(const Names& names, const Names& others) {
    Names left;
    std::copy_if(names.begin(), names.end(), std::back_inserter(left), [&](const auto& name) {
        return std::find(others.begin(), others.end(), name) == others.end();
    });
    return left;
}

// A few of them: experts are many.
std::string listed(const Names& names) {
    constexpr size_t kMost = 4;
    const auto shown = std::span(names).first(std::min(kMost, names.size()));
    std::string text = fmt::format("{}", fmt::join(shown, ", "));
    if (names.size() > kMost) text += fmt::format(" and {} more", names.size() - kMost);
    return text;
}

class FlowChooser {
  public:
    FlowChooser(const Modifier& modifier, const HookedModel& model, std::vector<std::string>& notes)
        : modifier_(modifier), model_(model), notes_(notes) {
        for (size_t i = 0; i < model.linears().size(); ++i) {
            indices_[model.linears()[i].name.name] = i;
        }
    }

    std::vector<ScaledFlow> choose() {
        if (modifier_.scaling.mappings.empty()) {
            choose_by_method();
        } else {
            for (const ScalingMapping& mapping : modifier_.scaling.mappings) apply(mapping);
        }
        if (chosen_.empty() && modifier_.scaling.mappings.empty()) {
            throw Error(ErrorKind::bad_data,
                        fmt::format("{}: it is not known which channels of a {} can be scaled; "
                                    "take --method gptq or rtn",
                                    modifier_.method, model_.model().config().architecture));
        }
        return std::move(chosen_);
    }

  private:
    int32_t num_blocks() const { return model_.model().num_blocks(); }

    static bool is_one_to_one(const ChannelFlow& flow) { return flow.columns_per_channel == 1; }

    void choose_by_method() {
        const bool all = modifier_.method == "awq";
        for (int32_t block = 0; block < num_blocks(); ++block) {
            for (const ChannelFlow& flow : model_.model().channel_flows(block)) {
                const bool is_wanted = all || flow.kind == ChannelFlow::Writer::norm;
                if (is_wanted && is_one_to_one(flow)) add(block, flow);
            }
        }
    }

    void add(int32_t block, const ChannelFlow& flow) {
        ScaledFlow scaled{block, &flow, std::nullopt, {}};
        if (flow.kind == ChannelFlow::Writer::linear) scaled.writer = index_of(flow.writer);
        for (const std::string& reader : flow.readers) scaled.readers.push_back(index_of(reader));
        chosen_.push_back(std::move(scaled));
    }

    size_t index_of(const std::string& name) const {
        const auto found = indices_.find(name);
        NVLLM_CHECK(found != indices_.end(), "a linear that a flow names: " + name);
        return found->second;
    }

    [[noreturn]] static void refuse(const ScalingMapping& mapping, const std::string& what) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("the mapping [[{}], {}]: {}", fmt::join(mapping.balance, ", "),
                                mapping.smooth, what));
    }

    Names balanced(const ScalingMapping& mapping, int32_t block) const {
        Names names;
        for (const size_t linear : model_.linears_of(block)) {
            const std::string& name = model_.linears()[linear].name.name;
            if (matches_any(name, mapping.balance)) names.push_back(name);
        }
        return names;
    }

    void apply(const ScalingMapping& mapping) {
        bool is_met = false;
        for (int32_t block = 0; block < num_blocks(); ++block) {
            is_met = apply_to_block(mapping, block) || is_met;
        }
        if (!is_met) refuse(mapping, why_unmet(mapping));
    }

    bool apply_to_block(const ScalingMapping& mapping, int32_t block) {
        const Names balance = balanced(mapping, block);
        Names covered;
        for (const ChannelFlow& flow : model_.model().channel_flows(block)) {
            const Names read = common(flow.readers, balance);
            if (read.empty() || !matches_any(flow.writer, {mapping.smooth})) continue;
            const Names forgotten = without(flow.readers, balance);
            if (!forgotten.empty()) {
                refuse(mapping, fmt::format("what {} writes is read by {} too; balance all that "
                                            "read it",
                                            flow.writer, listed(forgotten)));
            }
            covered.insert(covered.end(), read.begin(), read.end());
            if (is_one_to_one(flow)) {
                add(block, flow);
            } else {
                note_shared(mapping, flow);
            }
        }
        const Names strangers = without(balance, covered);
        if (!covered.empty() && !strangers.empty()) {
            refuse(mapping,
                   fmt::format("{} does not read what the smooth side writes", listed(strangers)));
        }
        return !covered.empty();
    }

    void note_shared(const ScalingMapping& mapping, const ChannelFlow& flow) {
        if (!noted_.insert(mapping.smooth).second) return;
        notes_.push_back(
            fmt::format("{}: {} is not scaled: {} columns of what reads it share each "
                        "of its channels",
                        modifier_.method, flow.writer, flow.columns_per_channel));
    }

    // Who does write what the balance side reads, where there is a balance side.
    std::string why_unmet(const ScalingMapping& mapping) const {
        for (int32_t block = 0; block < num_blocks(); ++block) {
            const Names balance = balanced(mapping, block);
            if (balance.empty()) continue;
            for (const ChannelFlow& flow : model_.model().channel_flows(block)) {
                if (common(flow.readers, balance).empty()) continue;
                return fmt::format(
                    "its smooth side writes nothing that they read; {} {} what {} "
                    "writes",
                    listed(flow.readers), flow.readers.size() == 1 ? "reads" : "read", flow.writer);
            }
            return fmt::format("nothing is known that writes what {} reads and could be scaled",
                               listed(balance));
        }
        return "its balance side matches no linear of a block";
    }

    const Modifier& modifier_;
    const HookedModel& model_;
    std::vector<std::string>& notes_;
    std::unordered_map<std::string_view, size_t> indices_;  // of linears
    std::vector<ScaledFlow> chosen_;
    std::set<std::string> noted_;
};

}  // namespace

std::vector<ScaledFlow> flows_to_scale(const Modifier& modifier, const HookedModel& model,
                                       std::vector<std::string>& notes) {
    return FlowChooser(modifier, model, notes).choose();
}

}  // namespace nvllm::quantize
