#include "lib/grammar/structural_tag.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "lib/base/json.h"
#include "lib/grammar/ebnf.h"
#include "lib/grammar/schema_check.h"

namespace nvllm {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxDepth = 100;

class TagCheck {
  public:
    TagCheck(const Tokenizer& tokenizer, ThreadTime end) : tokenizer_(tokenizer), end_(end) {
        for (int32_t id = 0; id < tokenizer.vocab_size(); ++id)
            if (tokenizer.is_special(id)) special_.push_back(tokenizer.token_text(id));
    }

    // Throws Fault.
    void visit(Json& node, const std::string& where) {
        if (node.is_array()) {
            for (size_t i = 0; i < node.size(); ++i)
                visit(node[i], where + "/" + std::to_string(i));
            return;
        }
        if (!node.is_object()) return;
        const std::string type = text_at(node, "type");
        for (auto& [key, value] : node.items()) visit_member(type, key, value, where + "/" + key);
    }

    bool spells_special_tokens() const { return spells_special_tokens_; }

  private:
    static std::string text_at(const Json& node, const char* key) {
        const auto found = node.find(key);
        return found != node.end() && found->is_string() ? found->get<std::string>() : "";
    }

    void visit_member(const std::string& type, const std::string& key, Json& value,
                      const std::string& where) {
        if (key == "type" || key == "style") return;
        if (key == "json_schema") return check_schema(value, where);
        if (key == "token") return name_token(value, where);
        if (key == "exclude_tokens" || key == "trigger_tokens") {
            if (value.is_array())
                for (Json& token : value) name_token(token, where);
            return;
        }
        if (key == "rules" && type == "token_dispatch" && value.is_array()) {
            for (Json& rule : value)
                if (rule.is_array() && !rule.empty()) name_token(rule[0], where);
        }
        if (key == "grammar" && value.is_string()) {
            auto ebnf = ebnf_of_grammar(value.get_ref<const std::string&>());
            if (!ebnf.ok()) throw Fault{ErrorKind::bad_data, ebnf.fault().message + " at " + where};
            value = std::move(*ebnf);
            return;
        }
        look_for_special_tokens(value);
        visit(value, where);
    }

    void check_schema(Json& value, const std::string& where) const {
        auto checked = checked_schema(value, where, end_);
        if (!checked.ok()) throw checked.fault();
        value = std::move(*checked);
    }

    void name_token(Json& value, const std::string& where) const {
        if (!value.is_string()) return;
        const std::string& name = value.get_ref<const std::string&>();
        const auto id = tokenizer_.token_id(name);
        if (!id.has_value()) {
            throw Fault{ErrorKind::bad_data, "the structural tag names a token " +
                                                 json_quoted(name) + " at " + where +
                                                 ", which the model's vocabulary does not have"};
        }
        value = *id;
    }

    // Texts here, and in the lists below; names of members are none.
    void look_for_special_tokens(const Json& value) {
        if (value.is_array())
            for (const Json& element : value)
                if (!element.is_object()) look_for_special_tokens(element);
        if (!value.is_string()) return;
        const std::string& text = value.get_ref<const std::string&>();
        for (const std::string& token : special_)
            if (!token.empty() && text.find(token) != std::string::npos)
                spells_special_tokens_ = true;
    }

    const Tokenizer& tokenizer_;
    ThreadTime end_;
    std::vector<std::string> special_;
    bool spells_special_tokens_ = false;
};

// The form before xgrammar 0.1.25: {"structures": [{"begin", "schema", "end"}], "triggers": [...]}.
Json from_older_form(const Json& tag) {
    if (!tag.is_object() || !tag.contains("structures") || tag.contains("format")) return tag;
    Json tags = Json::array();
    for (const Json& structure : tag.at("structures")) {
        if (!structure.is_object() || !structure.contains("begin") || !structure.contains("end"))
            throw Fault{ErrorKind::bad_data,
                        "each of the structural tag's \"structures\" needs \"begin\" and \"end\""};
        tags.push_back(
            {{"type", "tag"},
             {"begin", structure.at("begin")},
             {"content",
              {{"type", "json_schema"}, {"json_schema", structure.value("schema", Json(true))}}},
             {"end", structure.at("end")}});
    }
    return {{"type", "structural_tag"},
            {"format",
             {{"type", "triggered_tags"},
              {"triggers", tag.value("triggers", Json::array())},
              {"tags", std::move(tags)}}}};
}

}  // namespace

Result<CheckedTag> checked_structural_tag(std::string_view text, const Tokenizer& tokenizer,
                                          ThreadTime end) {
    try {
        JsonLimits limits;
        limits.max_depth = kMaxDepth;
        Json tag = from_older_form(parse_ordered_json(text, "structural tag", limits));
        TagCheck check(tokenizer, end);
        check.visit(tag, "#");
        return CheckedTag{write_json(tag), check.spells_special_tokens()};
    } catch (const Fault& fault) {
        return fault;
    } catch (const Error& error) {
        return Fault{error.kind(), error.what()};
    }
}

}  // namespace nvllm
