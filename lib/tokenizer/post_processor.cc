// Every known post-processor adds fixed ids before and behind a single text.
#include "lib/tokenizer/post_processor.h"

#include <array>

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

PostProcessor load_template(const JsonView& section) {
    PostProcessor result;
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

PostProcessor load_classifier(const JsonView& section) {
    return {{id_of_pair(section.at("cls"))}, {id_of_pair(section.at("sep"))}};
}

PostProcessor load_nothing(const JsonView&) { return {}; }

PostProcessor load_sequence(const JsonView& section) {
    PostProcessor all;
    for (const JsonView& part : section.at("processors").elements()) {
        const PostProcessor one = load_post_processor(part);
        all.before.insert(all.before.begin(), one.before.begin(), one.before.end());
        all.behind.insert(all.behind.end(), one.behind.begin(), one.behind.end());
    }
    return all;
}

struct Row {
    std::string_view type;
    PostProcessor (*load)(const JsonView&);
};

constexpr std::array<Row, 5> kRows = {{
    {"TemplateProcessing", load_template},
    {"BertProcessing", load_classifier},
    {"RobertaProcessing", load_classifier},
    {"ByteLevel", load_nothing},
    {"Sequence", load_sequence},
}};

}  // namespace

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
