// The shared sections: every key once, every option of the server, and only options that exist.
#include "lib/server/config/shared_sections.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "lib/cli/options.h"
#include "lib/engine/options/engine_options.h"
#include "lib/server/config/server_config.h"

using namespace nvllm;
using namespace nvllm::server;

TEST_CASE("no key and no option stands in the table twice") {
    const ConfigSections sections = shared_sections();
    std::set<std::pair<std::string, std::string>> keys;
    std::set<std::string> options;
    for (const ConfigKey& key : sections.keys) {
        CHECK(keys.insert({key.section, key.key}).second);
        CHECK(options.insert(key.option).second);
        CHECK(sections.has_section(key.section));
        CHECK(sections.option_of(key.section, key.key, true) == key.option);
    }
}

TEST_CASE("every key sets an option of the server or of the engine") {
    ServerConfig server;
    EngineConfig engine;
    OptionSet options;
    options.add(server_options(), server);
    options.add(engine_options(WithModel::no), engine);
    const ConfigSections sections = shared_sections();
    for (const ConfigKey& key : sections.keys) {
        CAPTURE(key.option);
        CHECK(options.find_exact(key.option) != nullptr);
    }
}

TEST_CASE("the section api takes every option of the server under its own name") {
    const ConfigSections sections = shared_sections();
    const OptionList<ServerConfig> list = server_options();
    for (const TypedOptionField& field : list.fields()) {
        CAPTURE(field.field.name);
        CHECK(sections.lists_option("api", field.field.name));
        CHECK(sections.knows_option(field.field.name));
    }
    CHECK_FALSE(sections.lists_option("api", "max-num-seqs"));
}

TEST_CASE("a model's name is looked up if no path stands beside it") {
    CHECK(shared_sections().option_of("model", "name", false) == "model");
    CHECK(shared_sections().option_of("model", "name", true) == "served-model-name");
}
