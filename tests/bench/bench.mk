# Host programs beside the hosted broker: the load generator, the mixed-load checker, benchmarks.
CLIENT_FLAGS := -O2 -g -Wall -Wextra -Werror -Itests/client
$(B)/bench/mqtt%: tests/client/mqtt%.c tests/client/mclient.c tests/client/mclient.h
	@mkdir -p $(@D)
	$(GCC) $(CLIENT_FLAGS) $(filter %.c,$^) -o $@ -lssl -lcrypto -lm
bench-tools: $(B)/bench/mqttload $(B)/bench/mqttmix ## load generator and mixed-load checker
bench: $(B)/bench/mqttload $(B)/bench/stack $(B)/bench/idle_memory $(B)/hosted/urmqtt ## side by side with mosquitto
	tests/bench/bench.py $(BENCH_ARGS)
scale: bench-scale
bench-scale: $(B)/hosted/urmqtt $(B)/bench/mqttscale $(B)/bench/mqttprobe ## 10 000 clients, 1 M subscriptions, 100 000 retained: cost, effect on others, memory
	/usr/bin/python3 tests/bench/scale.py $(BENCH_ARGS)
overload: bench-overload
bench-overload: $(B)/hosted/urmqtt $(B)/bench/mqttstorm $(B)/bench/mqttprobe ## more clients than can be served: rate, effect on others
	/usr/bin/python3 tests/bench/overload.py $(BENCH_ARGS)
bench-durable: $(B)/hosted/urmqtt $(B)/bench/mqttdurable ## QoS 1 acknowledged after the flush: rate, times, bytes a message
	/usr/bin/python3 tests/bench/durable.py $(BENCH_ARGS)
.PHONY: bench-durable bench bench-tools bench-scale bench-overload overload
# What a delivery costs in the broker alone: the hosted release's objects, packets in memory, no network.
bench_broker_o := $(patsubst src/%.c,$(B)/hosted/%.o,$(filter-out %_test.c %_fuzz.c %_host.c,\
                  $(wildcard src/base/*.c src/mqtt/*.c src/broker/*.c src/loop/*.c)) \
                  $(addprefix src/store/,store.c record.c block_share.c disk.c gpt.c superblock.c extents.c script.c \
                  journal.c journal_format.c)) \
                  $(B)/hosted/arch/x86_64/switch.o $(B)/hosted/plat/hosted/stack_guard.o
$(B)/bench/broker: tests/bench/broker_bench.c tests/unit_plat.c $(bench_broker_o)
	@mkdir -p $(@D)
	$(CLANG) $(filter-out -MMD -MP,$(HOST)) -O2 -fPIE -march=x86-64-v2 -Wno-conversion -pie -fuse-ld=lld \
	  $(filter %.c %.o,$^) -o $@
bench-broker: $(B)/bench/broker ## ns a delivery in the broker alone
	$(B)/bench/broker
bench-broker-ir: $(B)/bench/broker ## instructions a delivery in the broker alone (BASE=BINARY: beside another)
	tests/bench/broker_ir.py $(BASE) $(B)/bench/broker
$(B)/bench/index: tests/bench/index_bench.c tests/unit_plat.c $(bench_broker_o)
	@mkdir -p $(@D)
	$(CLANG) $(filter-out -MMD -MP,$(HOST)) -O2 -fPIE -march=x86-64-v2 -Wno-conversion -pie -fuse-ld=lld \
	  $(filter %.c %.o,$^) -o $@
bench-index: $(B)/bench/index ## a match among 1 000 and 1 000 000 filters (fails beyond twice as much)
	$(B)/bench/index
.PHONY: bench-broker bench-broker-ir bench-index
# What a segment costs in src/net alone: the hosted release's objects, frames in memory, no device.
bench_tcp_o := $(patsubst src/%.c,$(B)/hosted/%.o,$(filter-out %_test.c %_fuzz.c %_host.c src/loop/fiber.c,\
               $(wildcard src/base/*.c src/loop/*.c src/net/*.c))) $(B)/hosted/arch/x86_64/switch.o \
               $(B)/hosted/plat/hosted/stack_guard.o
$(B)/bench/tcp: tests/bench/tcp_bench.c tests/unit_plat.c $(bench_tcp_o)
	@mkdir -p $(@D)
	$(CLANG) $(filter-out -MMD -MP,$(HOST)) -O2 -fPIE -march=x86-64-v2 -Wno-conversion -Wno-missing-prototypes -pie \
	  -fuse-ld=lld $(filter %.c %.o,$^) -o $@
bench-tcp: $(B)/bench/tcp ## ns for one small segment in and one out
	$(B)/bench/tcp
.PHONY: bench-tcp
# What a record costs in the journal alone: the hosted release's objects, a disk in memory.
bench_journal_o := $(patsubst src/%.c,$(B)/hosted/%.o,$(filter-out %_test.c %_fuzz.c %_host.c src/loop/fiber.c,\
                   $(wildcard src/base/*.c src/store/*.c))) $(B)/hosted/plat/hosted/stack_guard.o
$(B)/bench/journal: tests/bench/journal_bench.c tests/unit_plat.c $(bench_journal_o)
	@mkdir -p $(@D)
	$(CLANG) $(filter-out -MMD -MP,$(HOST)) -O2 -fPIE -march=x86-64-v2 -Wno-conversion -Wno-missing-prototypes -pie \
	  -fuse-ld=lld -Wl,--gc-sections $(filter %.c %.o,$^) -o $@
$(B)/bench/db: tests/bench/db_bench.c tests/unit_plat.c $(bench_journal_o) $(B)/hosted/loop/fiber.o $(SQLITE_X86_LIB)
	@mkdir -p $(@D)
	$(CLANG) $(filter-out -MMD -MP,$(HOST)) -O2 -fPIE -march=x86-64-v2 -Wno-conversion -Wno-missing-prototypes -pie \
	  -fuse-ld=lld -Wl,--gc-sections $(filter %.c %.o %.a,$^) -o $@
$(B)/bench/db: $(B)/hosted/arch/x86_64/switch.o
bench-db: $(B)/bench/db ## microseconds and bytes written a message in the database, rows/s when it is loaded
	$(B)/bench/db
.PHONY: bench-db
bench-journal: $(B)/bench/journal ## records/s and bytes written a record in the journal alone
	$(B)/bench/journal
.PHONY: bench-journal
