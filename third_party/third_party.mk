# How BoringSSL and SQLite are fetched, checked, configured and built. Nothing is vendored.
BORINGSSL_X86_LIB  := $(B)/third_party/x86_64/libboringssl.a
BORINGSSL_ASAN_LIB := $(B)/third_party/asan/libboringssl.a
BORINGSSL_INC      := -isystem $(B)/third_party/boringssl/src/include
