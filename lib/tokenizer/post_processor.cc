// Every known post-processor adds fixed ids before and behind a single text, and around two.
#include "lib/tokenizer/post_processor.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "kernels/error.h"

namespace nvllm {
namespace {

int32_t checked_id(const JsonView& id) {
    const int64_t value = id.integer();
    if (value < 0 || value > INT32_MAX) id.fail("is not a token id");
    return static_cast<int32_t>(value);
}

// ["[SEP]", 102]
int32_t id_of_pair(const JsonView& pair) {
    const auto parts = pair.elements();
    if (parts.size() != 2) pair.fail("should be a token and its id");
    return checked_id(parts[1]);
}

// "pair" of a template: pieces in their order.
std::vector<PairPiece> load_pair(const JsonView& section) {
    const JsonView specials = section.at("special_tokens");
    std::vector<PairPiece> pieces;
    for (const JsonView& item : section.at("pair").elements()) {
        PairPiece& piece = pieces.emplace_back();
        const auto sequence = item.find("Sequence");
        const JsonView part = sequence ? *sequence : item.at("SpecialToken");
        const auto type = part.find("type_id");
        piece.type = type ? checked_id(*type) : 0;
        const std::string id = part.at("id").string();
        if (sequence) {
            if (id != "A" && id != "B") item.fail("a template for two texts names A and B");
            piece.kind = id == "A" ? PairPiece::Kind::first : PairPiece::Kind::second;
            continue;
        }
        for (const JsonView& each : specials.at(id).at("ids").elements()) {
            piece.ids.push_back(checked_id(each));
        }
    }
    return pieces;
}

PostProcessor load_template(const JsonView& section) {
    PostProcessor result;
    if (section.find("pair")) result.pair = load_pair(section);
    bool seen_text = false;
    const JsonView specials = section.at("special_tokens");
    for (const JsonView& item : section.at("single").elements()) {
        if (const auto sequence = item.find("Sequence")) {
            if (seen_text || sequence->at("id").string() != "A") {
                item.fail("a template for one text names exactly the text \"A\"");
            }
            seen_text = true;
            continue;
        }
        const JsonView token = specials.at(item.at("SpecialToken").at("id").string());
        for (const JsonView& id : token.at("ids").elements()) {
            (seen_text ? result.behind : result.before).push_back(checked_id(id));
        }
    }
    if (!seen_text) section.fail("the template does not name the text \"A\"");
    return result;
}

PostProcessor load_bert(const JsonView& section) {
    const int32_t cls = id_of_pair(section.at("cls"));
    const int32_t sep = id_of_pair(section.at("sep"));
    return {{cls},
            {sep},
            {{PairPiece::Kind::special, 0, {cls}},
             {PairPiece::Kind::first, 0},
             {PairPiece::Kind::special, 0, {sep}},
             {PairPiece::Kind::second, 1},
             {PairPiece::Kind::special, 1, {sep}}}};
}

PostProcessor load_roberta(const JsonView& section) {
    const int32_t cls = id_of_pair(section.at("cls"));
    const int32_t sep = id_of_pair(section.at("sep"));
    return {{cls},
            {sep},
            {{PairPiece::Kind::special, 0, {cls}},
             {PairPiece::Kind::first, 0},
             {PairPiece::Kind::special, 0, {sep, sep}},
             {PairPiece::Kind::second, 0},
             {PairPiece::Kind::special, 0, {sep}}}};
}

PostProcessor load_nothing(const JsonView&) { return {}; }

PostProcessor load_sequence(const JsonView& section) {
    PostProcessor all;
    for (const JsonView& part : section.at("processors").elements()) {
        const PostProcessor one = load_post_processor(part);
        all.before.insert(all.before.begin(), one.before.begin(), one.before.end());
        all.behind.insert(all.behind.end(), one.behind.begin(), one.behind.end());
        all.has_nested_pairs = all.has_nested_pairs || one.has_nested_pairs ||
                               (!all.pair.empty() && !one.pair.empty());
        if (all.pair.empty()) all.pair = one.pair;
    }
    return all;
}

struct Row {
    std::string_view type;
    PostProcessor (*load)(const JsonView&);
};

constexpr std::array<Row, 5> kRows = {{
    {"TemplateProcessing", load_template},
    {"BertProcessing", load_bert},
    {"RobertaProcessing", load_roberta},
    {"ByteLevel", load_nothing},
    {"Sequence", load_sequence},
}};

std::vector<PairPiece> usual_pair(const PostProcessor& processor) {
    using Kind = PairPiece::Kind;
    return {{Kind::special, 0, processor.before},
            {Kind::first, 0},
            {Kind::special, 0, processor.behind},
            {Kind::special, 1, processor.before},
            {Kind::second, 1},
            {Kind::special, 1, processor.behind}};
}

void shorten(std::vector<int32_t>& ids, size_t count) { ids.resize(std::min(ids.size(), count)); }

// Of two texts of which `space` ids may stay: the longer is cut to the other's length, then both to
// the half, of which the longer one gets what is left over.
void cut_longest_first(size_t space, std::vector<int32_t>& first, std::vector<int32_t>& second) {
    if (first.size() + second.size() <= space) return;
    std::vector<int32_t>& shorter = first.size() <= second.size() ? first : second;
    std::vector<int32_t>& longer = first.size() <= second.size() ? second : first;
    if (2 * shorter.size() <= space) {
        shorten(longer, space - shorter.size());
        return;
    }
    shorten(shorter, space / 2);
    shorten(longer, space - space / 2);
}

// The position from which on types are 1.
int32_t second_text_of(const std::vector<int32_t>& types) {
    const auto other = std::ranges::find_if(types, [](int32_t type) { return type != 0; });
    if (!std::all_of(other, types.end(), [](int32_t type) { return type == 1; })) {
        throw Error(ErrorKind::bad_data,
                    "the tokenizer's template for two texts has other token types than 0 for the "
                    "first and 1 for the second, which is not supported");
    }
    return other == types.end() ? 0 : static_cast<int32_t>(other - types.begin());
}

}  // namespace

EncodedPair PostProcessor::apply_pair(std::vector<int32_t> first, std::vector<int32_t> second,
                                      const PairLimits& limits) const {
    if (has_nested_pairs) {
        throw Error(ErrorKind::bad_data,
                    "the tokenizer has several templates for two texts, which is not supported");
    }
    const std::vector<PairPiece> pieces = pair.empty() ? usual_pair(*this) : pair;
    size_t num_special = 0;
    for (const PairPiece& piece : pieces) num_special += piece.ids.size();
    if (limits.max_second) shorten(second, static_cast<size_t>(*limits.max_second));
    if (limits.max_tokens) {
        const auto most = static_cast<size_t>(*limits.max_tokens);
        if (most < num_special + 2) {
            throw Error(ErrorKind::bad_data,
                        fmt::format("{} tokens leave no space for two texts, around which the "
                                    "tokenizer puts {}",
                                    most, num_special));
        }
        cut_longest_first(most - num_special, first, second);
    }
    EncodedPair encoded;
    std::vector<int32_t> types;
    for (const PairPiece& piece : pieces) {
        const std::vector<int32_t>& ids = piece.kind == PairPiece::Kind::first    ? first
                                          : piece.kind == PairPiece::Kind::second ? second
                                                                                  : piece.ids;
        encoded.ids.insert(encoded.ids.end(), ids.begin(), ids.end());
        types.resize(encoded.ids.size(), piece.type);
    }
    encoded.second_text = second_text_of(types);
    return encoded;
}

std::vector<int32_t> PostProcessor::apply(std::vector<int32_t> ids) const {
    ids.insert(ids.begin(), before.begin(), before.end());
    ids.insert(ids.end(), behind.begin(), behind.end());
    return ids;
}

PostProcessor load_post_processor(const JsonView& section) {
    const std::string type = section.at("type").string();
    for (const Row& row : kRows) {
        if (row.type == type) return row.load(section);
    }
    section.fail("post-processor \"" + type + "\" is not supported");
}

}  // namespace nvllm
