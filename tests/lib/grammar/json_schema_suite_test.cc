// The public suite of JSON Schema: no invalid document is accepted under any schema, and what is
// not supported is refused rather than ignored.
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/lib/grammar/grammar_fixture.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

using namespace test;

struct Outcome {
    int schemas = 0;
    int whole = 0;    // every document judged right
    int refused = 0;  // schemas
    int valid_refused = 0;
    int invalid_accepted = 0;
};

// What is a description by default; a part of the suite holds to it all the same.
bool asserts_descriptions(const nlohmann::ordered_json& schema) {
    return schema.contains("format") || schema.contains("contentMediaType") ||
           schema.contains("contentEncoding");
}

TEST_CASE("the public suite of JSON Schema") {
    const auto folder = shared_data("json-schema");
    if (folder.empty()) return;
    std::ifstream file(folder / "suite.jsonl");
    Outcome outcome;
    std::string line;
    const bool verbose = std::getenv("NVLLM_VERBOSE") != nullptr;
    for (int number = 0; std::getline(file, line); ++number) {
        const auto row = nlohmann::ordered_json::parse(line);
        ++outcome.schemas;
        const std::string name = std::to_string(number) + " " + row.at("draft").get<std::string>() +
                                 ": " + row.at("description").get<std::string>();
        const auto grammar =
            shared_compiler().compile({GrammarKind::json_schema, row.at("schema").dump()});
        if (!grammar.ok()) {
            ++outcome.refused;
            if (verbose) std::cout << "refused " << name << ": " << grammar.fault().message << "\n";
            continue;
        }
        bool whole = true;
        for (const auto& test : row.at("tests")) {
            const bool accepted = matches(*grammar, test.at("data").dump());
            if (accepted == test.at("valid").get<bool>()) continue;
            if (accepted && asserts_descriptions(row.at("schema"))) continue;
            whole = false;
            ++(accepted ? outcome.invalid_accepted : outcome.valid_refused);
            if (verbose)
                std::cout << (accepted ? "ACCEPTED " : "not accepted ") << name << ": "
                          << test.at("data").dump() << " under " << row.at("schema").dump() << "\n";
        }
        outcome.whole += whole ? 1 : 0;
        if (verbose && whole) std::cout << "whole " << number << "\n";
    }
    MESSAGE(outcome.schemas << " schemas: " << outcome.whole << " whole, " << outcome.refused
                            << " refused, " << outcome.valid_refused
                            << " valid documents not accepted");
    CHECK(outcome.invalid_accepted == 0);
    CHECK(outcome.whole >= 315);
}

// Without "type" a format describes, as the standard has it by default; with it, it holds.
TEST_CASE("formats of the public suite") {
    const auto folder = shared_data("json-schema");
    if (folder.empty()) return;
    std::ifstream file(folder / "suite.jsonl");
    std::string line;
    int valid = 0, accepted = 0;
    while (std::getline(file, line)) {
        const auto row = nlohmann::ordered_json::parse(line);
        const std::string keyword = row.at("keyword");
        if (!keyword.starts_with("optional/format/") || !row.at("schema").contains("format"))
            continue;
        const nlohmann::json schema = {{"type", "string"},
                                       {"format", row.at("schema").at("format")}};
        const auto grammar = shared_compiler().compile({GrammarKind::json_schema, schema.dump()});
        if (!grammar.ok()) {
            CHECK(grammar.fault().message.find("is not supported") != std::string::npos);
            continue;
        }
        for (const auto& test : row.at("tests")) {
            if (!test.at("data").is_string()) continue;
            const bool is_valid = test.at("valid");
            const bool is_accepted = matches(*grammar, test.at("data").dump());
            valid += is_valid ? 1 : 0;
            accepted += is_valid && is_accepted ? 1 : 0;
            CHECK_MESSAGE((is_valid || !is_accepted), keyword << ": " << test.at("data").dump());
            if (is_valid && !is_accepted && std::getenv("NVLLM_VERBOSE") != nullptr)
                std::cout << "not accepted as " << keyword << ": " << test.at("data").dump()
                          << "\n";
        }
    }
    MESSAGE(accepted << " of " << valid << " texts that have a format are accepted");
    CHECK(accepted * 10 >= valid * 9);
}

}  // namespace
}  // namespace nvllm
