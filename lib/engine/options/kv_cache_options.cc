// Names, help and ranges of the key-value cache's options.
#include <fmt/format.h>

#include "lib/cache/eviction.h"
#include "lib/engine/options/kv_cache_types.h"
#include "lib/engine/options/part_options.h"

namespace nvllm {

std::optional<BlockSize> OptionType<BlockSize>::parse(const OptionField&, const std::string& text) {
    if (const auto tokens = parse_integer<int32_t>(text)) {
        if (*tokens < 1 || *tokens > BlockSize::kMaxTokens) return std::nullopt;
        return BlockSize(*tokens);
    }
    const bool is_bytes = text.ends_with('B') || text.ends_with('b');
    const auto bytes = is_bytes ? parse_size(text) : std::nullopt;
    if (!bytes || *bytes == 0) return std::nullopt;
    return BlockSize::of_bytes(*bytes);
}

std::string OptionType<BlockSize>::format(const OptionField&, const BlockSize& value) {
    if (!value.bytes) return std::to_string(value.tokens);
    const std::string text = format_bytes(*value.bytes);
    return text.ends_with('B') ? text : text + "B";
}

OptionDetail block_size_form() {
    return form(fmt::format("a number of tokens from 1 to {}, or bytes such as 16KB",
                            BlockSize::kMaxTokens));
}

namespace {

constexpr int32_t kMaxInterval = 1 << 30;
constexpr int32_t kMaxBorders = 65536;

OptionList<CacheConfig> prefix_cache_options() {
    OptionList<CacheConfig> list("engine");
    list.group("Memory");
    list.add("enable-prefix-caching", &CacheConfig::enable_prefix_caching,
             "Take the blocks of a prompt's beginning from earlier requests that began alike.");
    list.add("eviction-policy", &CacheConfig::eviction,
             "Which cached block that nobody uses is given up first; cost: what is cheapest to "
             "compute again, by how likely it is wanted.",
             choices(names_of(eviction_policies())));
    list.add("state-checkpoint-interval", &CacheConfig::checkpoint_interval,
             "Of models with linear attention: tokens from one state that is kept for others to "
             "begin from to the next, in prompts and answers; rounded up to whole blocks.",
             range(1, kMaxInterval));
    list.add("state-checkpoint-borders", &CacheConfig::checkpoint_borders,
             "Of those models: states kept at borders between the messages of a prompt, the first "
             "and the last ones, beside that at its end; 0: none.",
             range(0, kMaxBorders));
    return list;
}

}  // namespace

OptionList<KvCacheOptions> kv_cache_options() {
    OptionList<KvCacheOptions> list("engine");
    list.group("Memory");
    list.add("block-size", &KvCacheOptions::block_size,
             "Tokens in a block of the key-value cache, or the bytes of cache it may take, such as "
             "16KB: as many tokens as they hold, at least one.",
             block_size_form(), value_name("N|BYTES"));
    list.add(
        "kv-cache-dtype", &KvCacheOptions::dtype,
        "Type of the key-value cache. fp8 (float8_e4m3, scaled by the checkpoint's k_scale and "
        "v_scale or not at all) and int8 (scaled by each token's heads) take half of 16 bits "
        "and round answers a little.",
        choices(kv_cache_words()),
        default_text(
            "fp8 where the checkpoint has a kv_cache_scheme for it, else that of --dtype"));
    list.include(&KvCacheOptions::cache, prefix_cache_options());
    list.add(
        "prefix-cache-dir", &KvCacheOptions::prefix_cache_dir,
        "Folder in which blocks of the prefix cache are kept beyond the end of the process, and "
        "shared with others of the same model: what a prompt begins with is read from there "
        "instead of computed. They say what the prompts said: keep it as safe as those.",
        value_name("DIR"));
    list.add(
        "prefix-cache-disk-size", &KvCacheOptions::prefix_cache_bytes,
        "Most bytes in that folder for one model, such as 100GiB: what was used least recently "
        "goes first.",
        counts_bytes(), at_least(1 << 20));
    return list;
}

}  // namespace nvllm
