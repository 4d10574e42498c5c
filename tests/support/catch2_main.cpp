// Catch2 2.13 compiles its main() here; version 3 brings a library.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
