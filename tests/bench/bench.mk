# Host programs beside the hosted broker: the load generator, the mixed-load checker, benchmarks.
CLIENT_FLAGS := -O2 -g -Wall -Wextra -Werror -Itests/client
$(B)/bench/mqtt%: tests/client/mqtt%.c tests/client/mclient.c tests/client/mclient.h
	@mkdir -p $(@D)
	$(GCC) $(CLIENT_FLAGS) $(filter %.c,$^) -o $@ -lssl -lcrypto
bench-tools: $(B)/bench/mqttload $(B)/bench/mqttmix ## load generator and mixed-load checker
bench: $(B)/bench/mqttload $(B)/hosted/urmqtt ## side by side with mosquitto
	tests/bench/bench.py $(BENCH_ARGS)
.PHONY: bench bench-tools
