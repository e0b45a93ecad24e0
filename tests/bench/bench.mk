# Benchmarks: host programs beside the hosted broker. `./urmqtt bench` runs them.
$(B)/bench/mqttload: tests/bench/mqttload.c
	@mkdir -p $(@D)
	$(GCC) -O2 -Wall -Wextra -Werror $< -o $@ -lssl -lcrypto
bench-tools: $(B)/bench/mqttload ## load generator
bench: $(B)/bench/mqttload $(B)/hosted/urmqtt ## side by side with mosquitto
	tests/bench/bench.py $(BENCH_ARGS)
.PHONY: bench bench-tools
