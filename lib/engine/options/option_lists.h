// The field list of the options that every program with an engine has.
#pragma once

#include "lib/cli/option_list.h"
#include "lib/engine/engine_config.h"

namespace nvllm {

// Tokens, or bytes with their suffix: "16", "16KB".
template <>
struct OptionType<BlockSize> {
    static constexpr OptionKind kind = OptionKind::size;
    static std::optional<BlockSize> parse(const OptionField& field, const std::string& text);
    static std::string format(const OptionField& field, const BlockSize& value);
};

// Hexadecimal, or a list: "f", "0-3,8".
template <>
struct OptionType<CpuMask> {
    static constexpr OptionKind kind = OptionKind::text;
    static std::optional<CpuMask> parse(const OptionField& field, const std::string& text);
    static std::string format(const OptionField& field, const CpuMask& value);
};

// The detail of options whose member is a BlockSize.
OptionDetail block_size_form();

// Words for types of products, to which others may be added.
std::vector<std::string> precision_words();

// Programs with several models name them in options of their own.
enum class WithModel : bool { no, yes };
OptionList<EngineConfig> engine_options(WithModel with_model = WithModel::yes);

}  // namespace nvllm
