// The examples of RFC 3986, 5.4.
#include "lib/grammar/schema/uri_reference.h"

#include <doctest/doctest.h>

namespace nvllm {
namespace {

TEST_CASE("references beside the address of their document") {
    struct Row {
        const char* reference;
        const char* resolved;
    };
    const Row rows[] = {{"g:h", "g:h"},
                        {"g", "http://a/b/c/g"},
                        {"./g", "http://a/b/c/g"},
                        {"g/", "http://a/b/c/g/"},
                        {"/g", "http://a/g"},
                        {"//g", "http://g"},
                        {"?y", "http://a/b/c/d;p?y"},
                        {"g?y", "http://a/b/c/g?y"},
                        {"#s", "http://a/b/c/d;p?q#s"},
                        {"g#s", "http://a/b/c/g#s"},
                        {"g?y#s", "http://a/b/c/g?y#s"},
                        {";x", "http://a/b/c/;x"},
                        {"", "http://a/b/c/d;p?q"},
                        {".", "http://a/b/c/"},
                        {"./", "http://a/b/c/"},
                        {"..", "http://a/b/"},
                        {"../g", "http://a/b/g"},
                        {"../..", "http://a/"},
                        {"../../g", "http://a/g"},
                        {"../../../g", "http://a/g"},
                        {"/../g", "http://a/g"},
                        {"g..", "http://a/b/c/g.."},
                        {"./../g", "http://a/b/g"},
                        {"g/./h", "http://a/b/c/g/h"},
                        {"g/../h", "http://a/b/c/h"}};
    for (const Row& row : rows)
        CHECK_MESSAGE(resolved_uri("http://a/b/c/d;p?q", row.reference) == row.resolved,
                      row.reference);
    CHECK(resolved_uri("", "#/$defs/a") == "#/$defs/a");
    CHECK(resolved_uri("urn:example:1", "#a") == "urn:example:1#a");
    CHECK(resolved_uri("http://a", "b") == "http://a/b");
}

}  // namespace
}  // namespace nvllm
