// Old files say add_prefix_space, newer ones prepend_scheme.
#include "lib/tokenizer/metaspace.h"

#include "lib/base/utf8.h"

namespace nvllm {

MetaspaceOptions load_metaspace(const JsonView& section) {
    MetaspaceOptions options;
    options.replacement = section.string_or("replacement", options.replacement);
    if (utf8::count(options.replacement) != 1) section.fail("\"replacement\" is not one character");
    options.split = section.boolean_or("split", true);
    const std::string scheme = section.string_or("prepend_scheme", "");
    if (scheme == "first") {
        options.prepend = PrependScheme::first;
    } else if (scheme == "never") {
        options.prepend = PrependScheme::never;
    } else if (scheme.empty()) {
        if (!section.boolean_or("add_prefix_space", true)) options.prepend = PrependScheme::never;
    } else if (scheme != "always") {
        section.fail("\"prepend_scheme\" is \"" + scheme + "\", not always, first or never");
    }
    return options;
}

}  // namespace nvllm
