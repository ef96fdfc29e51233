/* A stand-in for libnvidia-ml.so.1 over the state store of the simulated driver.
 *
 * FAKE_NVML_STORE       root of the store: one folder per GPU, one small text file per attribute.
 * FAKE_NVML_PRIVILEGED  "1": this process is root to the driver and may call setters.
 * FAKE_NVML_COUNTER_US  for how long a read of the energy counter keeps a core busy.
 *
 * Beyond the files of the store, a GPU's folder may hold `mig` and `ecc` ("1" or "0"; absent: the
 * GPU has none). Every call of a setter, allowed or not, is appended to `<root>/calls`.
 *
 * Two threads in GPM at once get UNKNOWN, where an H100's driver 580.159 crashed the process.
 *
 * Values, error codes and their conditions follow what an H200 with driver 580.159 answered.
 * Compiled with -DBRANCH_535 the library lacks what that driver branch lacked, with -DBRANCH_470
 * the way of telling memory that came with branch 510.
 */
#include <dirent.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    SUCCESS = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4,
    NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, GPU_IS_LOST = 15,
    VERSION_MISMATCH = 25, UNKNOWN = 999
};
enum { TYPE_DOUBLE = 0, TYPE_UINT = 1, TYPE_ULONG_LONG = 3 };
enum { MAX_GPUS = 32, MAX_SAMPLES = 120, MAX_CLOCKS = 512, TEXT = 16384, PATH = 4096 };

typedef int Return;
typedef struct { char uuid[96]; int index; } Gpu;
typedef Gpu *Device;
typedef union { double d; unsigned u; unsigned long ul; unsigned long long ull; } Value;
typedef struct {
    uint32_t field, scope;
    int64_t timestamp, latency_us;
    unsigned type;
    Return status;
    Value value;
} FieldValue;
typedef struct { unsigned long long time_us; Value value; } Sample;
typedef struct { unsigned pid; unsigned long long memory_b; unsigned gpu, compute; } Process;
typedef struct { unsigned version, sensor; int temperature; } Temperature;
typedef struct { unsigned long long total_b, free_b, used_b; } Memory;
typedef struct { unsigned version; unsigned long long total_b, reserved_b, free_b, used_b; } Memory2;
typedef struct {
    char legacy_bus_id[16];
    unsigned domain, bus, device, pci_device, pci_subsystem;
    char bus_id[32];
} Pci;
typedef struct { unsigned version, supported; } GpmSupport;
typedef struct { double time_s; char readings[TEXT]; } GpmSample;
typedef struct { char *short_name, *long_name, *unit; } MetricInfo;
typedef struct { unsigned id; Return status; double value; MetricInfo info; } GpmMetric;
typedef struct { unsigned version, count; GpmSample *first, *second; GpmMetric metrics[]; } GpmMetrics;

static Gpu gpus[MAX_GPUS];
static int num_gpus, num_users;

/* Costs ---------------------------------------------------------------------------------- */

static double thread_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + 1e-9 * now.tv_nsec;
}

/* What a read of the energy counter takes of a core. Reads of power and of a live state take more
 * here than with an H200 without that: experiments/results/h200_live_metrics. */
static void keep_busy(void)
{
    const char *said = getenv("FAKE_NVML_COUNTER_US");
    double until_s = said ? thread_s() + 1e-6 * atof(said) : 0;
    while (thread_s() < until_s)
        ;
}

/* The store ------------------------------------------------------------------------------ */

static const char *root(void) { return getenv("FAKE_NVML_STORE"); }

static int is_privileged(void)
{
    const char *said = getenv("FAKE_NVML_PRIVILEGED");
    return said && !strcmp(said, "1");
}

static int read_file(const char *uuid, const char *name, char *text, size_t size)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/%s/%s", root(), uuid, name);
    FILE *file = fopen(path, "r");
    if (!file)
        return 0;
    text[fread(text, 1, size - 1, file)] = 0;
    fclose(file);
    return 1;
}

static int write_file(const char *uuid, const char *name, const char *text)
{
    char path[PATH], temporary[PATH + 16];
    snprintf(path, sizeof path, "%s/%s/%s", root(), uuid, name);
    snprintf(temporary, sizeof temporary, "%s.%d.tmp", path, (int)getpid());
    FILE *file = fopen(temporary, "w");
    if (!file)
        return 0;
    fputs(text, file);
    return !fclose(file) && !rename(temporary, path);
}

static int remove_file(const char *uuid, const char *name)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/%s/%s", root(), uuid, name);
    return !unlink(path) || errno == ENOENT;
}

static int read_numbers(const char *uuid, const char *name, unsigned *numbers, int limit)
{
    char text[TEXT], *rest = text, *end;
    int count = 0;
    if (!read_file(uuid, name, text, sizeof text))
        return -1;
    for (; count < limit; count++, rest = end) {
        numbers[count] = (unsigned)strtoul(rest, &end, 10);
        if (end == rest)
            break;
    }
    return count;
}

/* The value of `key` in lines of "key value"; 0 if there is no such line. */
static int find_value(const char *lines, const char *key, double *value)
{
    size_t length = strlen(key);
    for (const char *line = lines; line; line = strchr(line, '\n'), line += line != NULL)
        if (!strncmp(line, key, length) && line[length] == ' ')
            return sscanf(line + length, "%lf", value) == 1;
    return 0;
}

static Return reading(Device gpu, const char *key, double *value)
{
    char lines[TEXT];
    if (!read_file(gpu->uuid, "readings", lines, sizeof lines))
        return UNKNOWN;
    return find_value(lines, key, value) ? SUCCESS : NOT_SUPPORTED;
}

static int is_lost(Device gpu)
{
    char faults[TEXT], readings[TEXT];
    double now_s = 0, at_s = 0;
    if (!read_file(gpu->uuid, "faults", faults, sizeof faults))
        return 0;
    for (char *line = strtok(faults, "\n"); line; line = strtok(NULL, "\n")) {
        if (strncmp(line, "lost", 4))
            continue;
        char *key = strstr(line, "at_s=");
        if (!key || sscanf(key, "at_s=%lf", &at_s) != 1)
            return 1;
        if (read_file(gpu->uuid, "readings", readings, sizeof readings)
            && find_value(readings, "time_s", &now_s) && now_s >= at_s)
            return 1;
    }
    return 0;
}

static int has_fault(Device gpu, const char *kind)
{
    char faults[TEXT];
    if (!read_file(gpu->uuid, "faults", faults, sizeof faults))
        return 0;
    for (char *line = strtok(faults, "\n"); line; line = strtok(NULL, "\n"))
        if (!strncmp(line, kind, strlen(kind)))
            return 1;
    return 0;
}

static Return check(Device gpu)
{
    if (!num_users)
        return UNINITIALIZED;
    if (gpu < gpus || gpu >= gpus + num_gpus)
        return INVALID_ARGUMENT;
    return is_lost(gpu) ? GPU_IS_LOST : SUCCESS;
}

#define CHECKED(gpu) do { Return bad = check(gpu); if (bad) return bad; } while (0)

static Return read_unsigned(Device gpu, const char *key, unsigned *out)
{
    CHECKED(gpu);
    double value;
    Return status = reading(gpu, key, &value);
    if (!status)
        *out = (unsigned)value;
    return status;
}

static Return copy_text(const char *text, char *out, unsigned size)
{
    if (strlen(text) >= size)
        return INSUFFICIENT_SIZE;
    strcpy(out, text);
    return SUCCESS;
}

static Return copy_file(Device gpu, const char *name, char *out, unsigned size)
{
    char text[TEXT];
    CHECKED(gpu);
    if (!read_file(gpu->uuid, name, text, sizeof text))
        return NOT_SUPPORTED;
    text[strcspn(text, "\n")] = 0;
    return copy_text(text, out, size);
}

static Return read_switch(Device gpu, const char *name, unsigned *current, unsigned *pending)
{
    unsigned value;
    CHECKED(gpu);
    if (read_numbers(gpu->uuid, name, &value, 1) != 1)
        return NOT_SUPPORTED;
    *current = *pending = value;
    return SUCCESS;
}

/* The library ---------------------------------------------------------------------------- */

/* By kind, then by number: the UUIDs are SIM-<kind>-<number>. */
static int in_order(const void *left, const void *right)
{
    const Gpu *one = left, *other = right;
    const char *end = strrchr(one->uuid, '-');
    int kind = strncmp(one->uuid, other->uuid, end ? (size_t)(end - one->uuid) : sizeof one->uuid);
    return kind ? kind : one->index - other->index;
}

Return nvmlInitWithFlags(unsigned flags)
{
    (void)flags;
    DIR *folder = root() ? opendir(root()) : NULL;
    if (!folder)
        return DRIVER_NOT_LOADED;
    if (!num_users) {
        num_gpus = 0;
        for (struct dirent *entry; (entry = readdir(folder)) && num_gpus < MAX_GPUS;) {
            unsigned index;
            if (entry->d_name[0] == '.' || strlen(entry->d_name) >= sizeof gpus->uuid
                || read_numbers(entry->d_name, "index", &index, 1) != 1)
                continue;
            strcpy(gpus[num_gpus].uuid, entry->d_name);
            gpus[num_gpus++].index = (int)index;
        }
        qsort(gpus, (size_t)num_gpus, sizeof *gpus, in_order);
    }
    closedir(folder);
    num_users++;
    return SUCCESS;
}

Return nvmlShutdown(void)
{
    if (!num_users)
        return UNINITIALIZED;
    num_users--;
    return SUCCESS;
}

const char *nvmlErrorString(Return status)
{
    switch (status) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NO_PERMISSION: return "Insufficient Permissions";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case GPU_IS_LOST: return "GPU is lost";
    case VERSION_MISMATCH: return "Argument version mismatch";
    default: return "Unknown Error";
    }
}

Return nvmlSystemGetDriverVersion(char *version, unsigned size)
{
    if (!num_users)
        return UNINITIALIZED;
    if (!num_gpus)
        return copy_text("580.159.04", version, size);
    return copy_file(&gpus[0], "driver_version", version, size);
}

Return nvmlDeviceGetCount_v2(unsigned *count)
{
    if (!num_users)
        return UNINITIALIZED;
    *count = (unsigned)num_gpus;
    return SUCCESS;
}

Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device *gpu)
{
    if (!num_users)
        return UNINITIALIZED;
    if (index >= (unsigned)num_gpus)
        return INVALID_ARGUMENT;
    *gpu = &gpus[index];
    return is_lost(*gpu) ? GPU_IS_LOST : SUCCESS;
}

Return nvmlDeviceGetHandleByUUID(const char *uuid, Device *gpu)
{
    if (!num_users)
        return UNINITIALIZED;
    for (int i = 0; i < num_gpus; i++)
        if (!strcmp(gpus[i].uuid, uuid)) {
            *gpu = &gpus[i];
            return is_lost(*gpu) ? GPU_IS_LOST : SUCCESS;
        }
    return NOT_FOUND;
}

/* Identity ------------------------------------------------------------------------------- */

Return nvmlDeviceGetUUID(Device gpu, char *uuid, unsigned size)
{
    CHECKED(gpu);
    return copy_text(gpu->uuid, uuid, size);
}

Return nvmlDeviceGetName(Device gpu, char *name, unsigned size)
{
    return copy_file(gpu, "name", name, size);
}

Return nvmlDeviceGetVbiosVersion(Device gpu, char *version, unsigned size)
{
    CHECKED(gpu);
    return copy_text("96.00.A5.00.1A", version, size);
}

Return nvmlDeviceGetPciInfo_v3(Device gpu, Pci *pci)
{
    CHECKED(gpu);
    memset(pci, 0, sizeof *pci);
    pci->bus = (unsigned)gpu->index + 1;
    snprintf(pci->bus_id, sizeof pci->bus_id, "00000000:%02X:00.0", pci->bus);
    snprintf(pci->legacy_bus_id, sizeof pci->legacy_bus_id, "0000:%02X:00.0", pci->bus & 0xff);
    return SUCCESS;
}

Return nvmlDeviceGetEccMode(Device gpu, unsigned *current, unsigned *pending)
{
    return read_switch(gpu, "ecc", current, pending);
}

Return nvmlDeviceGetMigMode(Device gpu, unsigned *current, unsigned *pending)
{
    return read_switch(gpu, "mig", current, pending);
}

Return nvmlDeviceGetPersistenceMode(Device gpu, unsigned *mode)
{
    CHECKED(gpu);
    *mode = 1;
    return SUCCESS;
}

Return nvmlDeviceGetComputeRunningProcesses_v3(Device gpu, unsigned *count, Process *processes)
{
    char text[TEXT];
    unsigned room = *count;
    CHECKED(gpu);
    *count = 0;
    if (!read_file(gpu->uuid, "processes", text, sizeof text))
        return SUCCESS;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        Process each = { .gpu = UINT32_MAX, .compute = UINT32_MAX };
        if (sscanf(line, "%u %llu", &each.pid, &each.memory_b) != 2)
            continue;
        if (processes && *count < room)
            processes[*count] = each;
        (*count)++;
    }
    return *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}

/* Sensors -------------------------------------------------------------------------------- */

Return nvmlDeviceGetTotalEnergyConsumption(Device gpu, unsigned long long *energy_mj)
{
    keep_busy();
    double value;
    CHECKED(gpu);
    Return status = reading(gpu, "energy_mj", &value);
    if (!status)
        *energy_mj = (unsigned long long)value;
    return status;
}

Return nvmlDeviceGetPowerUsage(Device gpu, unsigned *power_mw)
{
    return read_unsigned(gpu, "average_power_mw", power_mw);
}

Return nvmlDeviceGetClockInfo(Device gpu, unsigned type, unsigned *clock_mhz)
{
    if (type > 3)
        return INVALID_ARGUMENT;
    return read_unsigned(gpu, type == 2 ? "mem_clock_mhz" : "sm_clock_mhz", clock_mhz);
}

Return nvmlDeviceGetTemperature(Device gpu, unsigned sensor, unsigned *temperature_c)
{
    return sensor ? INVALID_ARGUMENT : read_unsigned(gpu, "temperature_c", temperature_c);
}

static Return read_memory(Device gpu, Memory2 *memory)
{
    double used_b = 0;
    CHECKED(gpu);
    Return status = reading(gpu, "memory_used_b", &used_b);
    memory->total_b = 150754820096ull;
    memory->reserved_b = 645922816ull;
    memory->used_b = (unsigned long long)used_b;
    memory->free_b = memory->total_b - memory->reserved_b - memory->used_b;
    return status;
}

/* Since branch 510 what this one calls used holds what is reserved. */
Return nvmlDeviceGetMemoryInfo(Device gpu, Memory *memory)
{
    Memory2 parts = {0};
    Return status = read_memory(gpu, &parts);
    memory->total_b = parts.total_b;
    memory->free_b = parts.free_b;
#ifdef BRANCH_470
    memory->used_b = parts.used_b;
#else
    memory->used_b = parts.used_b + parts.reserved_b;
#endif
    return status;
}

#ifndef BRANCH_470
Return nvmlDeviceGetMemoryInfo_v2(Device gpu, Memory2 *memory)
{
    if (memory->version != (2u << 24 | sizeof(Memory2)))
        return VERSION_MISMATCH;
    return read_memory(gpu, memory);
}
#endif

/* In whole percent of the driver's last sample period. */
typedef struct { unsigned gpu, memory; } Utilization;

Return nvmlDeviceGetUtilizationRates(Device gpu, Utilization *rates)
{
    double busy, moved;
    CHECKED(gpu);
    if (reading(gpu, "gr_engine_active", &busy) || reading(gpu, "dram_active", &moved))
        return NOT_SUPPORTED;
    rates->gpu = (unsigned)(100 * busy);
    rates->memory = (unsigned)(100 * moved);
    return SUCCESS;
}

static Return read_reasons(Device gpu, unsigned long long *reasons)
{
    double value;
    CHECKED(gpu);
    Return status = reading(gpu, "event_reasons", &value);
    if (!status)
        *reasons = (unsigned long long)value;
    return status;
}

Return nvmlDeviceGetCurrentClocksThrottleReasons(Device gpu, unsigned long long *reasons)
{
    return read_reasons(gpu, reasons);
}

#ifndef BRANCH_535
Return nvmlDeviceGetCurrentClocksEventReasons(Device gpu, unsigned long long *reasons)
{
    return read_reasons(gpu, reasons);
}

Return nvmlDeviceGetTemperatureV(Device gpu, Temperature *temperature)
{
    unsigned value;
    if (temperature->version != (1u << 24 | sizeof(Temperature)))
        return VERSION_MISMATCH;
    Return status = nvmlDeviceGetTemperature(gpu, temperature->sensor, &value);
    if (!status)
        temperature->temperature = (int)value;
    return status;
}
#endif

enum { HW_THERMAL = 270 }; /* none unless told: it never happens to a simulated GPU */

typedef struct { uint32_t field, scope; unsigned type; const char *key; } FieldKey;

static const FieldKey field_keys[] = {
    { 74, 0, TYPE_ULONG_LONG, "power_cap_ns" },
    { 82, 0, TYPE_UINT, "memory_temperature_c" },
    { 83, 0, TYPE_ULONG_LONG, "energy_mj" },
    { 185, 0, TYPE_UINT, "average_power_mw" },
    { 186, 0, TYPE_UINT, "power_mw" },
#ifdef BRANCH_535
    { 75, 0, TYPE_ULONG_LONG, "thermal_ns" },
#else
    { 185, 2, TYPE_UINT, "memory_power_mw" },
    { 269, 0, TYPE_ULONG_LONG, "thermal_ns" },
    { HW_THERMAL, 0, TYPE_ULONG_LONG, "hw_thermal_ns" },
#endif
};

static void read_field(Device gpu, FieldValue *value)
{
    double number = 0;
    const FieldKey *found = NULL;
    for (size_t i = 0; i < sizeof field_keys / sizeof *field_keys; i++)
        if (field_keys[i].field == value->field && field_keys[i].scope == value->scope)
            found = &field_keys[i];
    memset(&value->value, 0, sizeof value->value);
    value->timestamp = value->latency_us = 0;
    value->type = found ? found->type : TYPE_UINT;
    if (!found)
        value->status = value->field > 274 ? INVALID_ARGUMENT : NOT_SUPPORTED;
    else {
        value->status = reading(gpu, found->key, &number);
        if (found->field == HW_THERMAL)
            value->status = SUCCESS;
    }
    if (value->type == TYPE_UINT)
        value->value.u = (unsigned)number;
    else
        value->value.ull = (unsigned long long)number;
}

Return nvmlDeviceGetFieldValues(Device gpu, int count, FieldValue *values)
{
    CHECKED(gpu);
    for (int i = 0; i < count; i++)
        read_field(gpu, &values[i]);
    return SUCCESS;
}

Return nvmlDeviceGetSamples(Device gpu, unsigned type, unsigned long long last_seen_us,
                            unsigned *value_type, unsigned *count, Sample *samples)
{
    char text[TEXT];
    unsigned room = *count, num = 0;
    CHECKED(gpu);
    if (type)
        return INVALID_ARGUMENT;
    if (!read_file(gpu->uuid, "samples", text, sizeof text))
        return NOT_SUPPORTED;
    *value_type = TYPE_UINT;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        Sample each = { 0 };
        if (sscanf(line, "%llu %u", &each.time_us, &each.value.u) != 2
            || each.time_us <= last_seen_us)
            continue;
        if (samples && num < room)
            samples[num] = each;
        num++;
    }
    if (!num)
        return NOT_FOUND;
    if (!samples)
        *count = MAX_SAMPLES;
    else
        *count = num < room ? num : room;
    return SUCCESS;
}

/* Activity ------------------------------------------------------------------------------- */

#ifndef BRANCH_535
static const char *metric_key(unsigned id)
{
    switch (id) {
    case 1: return "gr_engine_active";
    case 2: return "sm_active";
    case 3: return "sm_occupancy";
    case 5: return "tensor_active";
    case 10: return "dram_active";
    case 11: return "fp64_active";
    case 12: return "fp32_active";
    case 13: return "fp16_active";
    default: return NULL;
    }
}

Return nvmlGpmQueryDeviceSupport(Device gpu, GpmSupport *support)
{
    double value;
    CHECKED(gpu);
    support->supported = !reading(gpu, "sm_active", &value);
    return SUCCESS;
}

Return nvmlGpmSampleAlloc(GpmSample **sample)
{
    *sample = calloc(1, sizeof **sample);
    return *sample ? SUCCESS : UNKNOWN;
}

Return nvmlGpmSampleFree(GpmSample *sample)
{
    free(sample);
    return SUCCESS;
}

static atomic_int in_gpm;

/* Stay as long as the driver does; return whether no other thread was there meanwhile. */
static int alone_in_gpm(void)
{
    int others = atomic_fetch_add(&in_gpm, 1);
    usleep(1000);
    return atomic_fetch_sub(&in_gpm, 1) == 1 && !others;
}

Return nvmlGpmSampleGet(Device gpu, GpmSample *sample)
{
    CHECKED(gpu);
    if (!alone_in_gpm())
        return UNKNOWN;
    return read_file(gpu->uuid, "readings", sample->readings, sizeof sample->readings)
        ? SUCCESS : NOT_SUPPORTED;
}

/* The store holds activities of the moment, so the mean of an interval is that of its ends. */
Return nvmlGpmMetricsGet(GpmMetrics *asked)
{
    if (asked->version != 1 || asked->first == asked->second)
        return INVALID_ARGUMENT;
    if (!alone_in_gpm())
        return UNKNOWN;
    for (unsigned i = 0; i < asked->count; i++) {
        GpmMetric *metric = &asked->metrics[i];
        const char *key = metric_key(metric->id);
        double before, after;
        int known = key && find_value(asked->first->readings, key, &before)
            && find_value(asked->second->readings, key, &after);
        metric->status = known ? SUCCESS : NOT_SUPPORTED;
        metric->value = known ? 50 * (before + after) : 0;
    }
    return SUCCESS;
}
#endif

/* Knobs ---------------------------------------------------------------------------------- */

static Return list_clocks(Device gpu, const char *name, unsigned *count, unsigned *clocks_mhz)
{
    unsigned all[MAX_CLOCKS], room = *count;
    int num = read_numbers(gpu->uuid, name, all, MAX_CLOCKS);
    if (num < 0)
        return NOT_SUPPORTED;
    *count = (unsigned)num;
    if (room < *count)
        return INSUFFICIENT_SIZE;
    memcpy(clocks_mhz, all, (size_t)num * sizeof *all);
    return SUCCESS;
}

static int is_listed(Device gpu, const char *name, unsigned clock_mhz)
{
    unsigned all[MAX_CLOCKS];
    int num = read_numbers(gpu->uuid, name, all, MAX_CLOCKS);
    for (int i = 0; i < num; i++)
        if (all[i] == clock_mhz)
            return 1;
    return 0;
}

Return nvmlDeviceGetSupportedMemoryClocks(Device gpu, unsigned *count, unsigned *clocks_mhz)
{
    CHECKED(gpu);
    return list_clocks(gpu, "mem_clocks_mhz", count, clocks_mhz);
}

Return nvmlDeviceGetSupportedGraphicsClocks(Device gpu, unsigned mem_clock_mhz, unsigned *count,
                                            unsigned *clocks_mhz)
{
    CHECKED(gpu);
    if (!is_listed(gpu, "mem_clocks_mhz", mem_clock_mhz))
        return NOT_FOUND;
    return list_clocks(gpu, "sm_clocks_mhz", count, clocks_mhz);
}

static Return limit_at(Device gpu, int position, unsigned *limit_mw)
{
    unsigned range[3];
    CHECKED(gpu);
    if (read_numbers(gpu->uuid, "power_limit_range_mw", range, 3) != 3)
        return NOT_SUPPORTED;
    *limit_mw = range[position];
    return SUCCESS;
}

Return nvmlDeviceGetPowerManagementLimitConstraints(Device gpu, unsigned *lowest, unsigned *highest)
{
    Return status = limit_at(gpu, 0, lowest);
    return status ? status : limit_at(gpu, 1, highest);
}

Return nvmlDeviceGetPowerManagementDefaultLimit(Device gpu, unsigned *limit_mw)
{
    return limit_at(gpu, 2, limit_mw);
}

Return nvmlDeviceGetEnforcedPowerLimit(Device gpu, unsigned *limit_mw)
{
    CHECKED(gpu);
    if (read_numbers(gpu->uuid, "power_limit_mw", limit_mw, 1) == 1)
        return SUCCESS;
    return limit_at(gpu, 2, limit_mw);
}

static void log_call(Device gpu, const char *setter, const char *arguments)
{
    char path[PATH];
    snprintf(path, sizeof path, "%s/calls", root());
    FILE *file = fopen(path, "a");
    if (!file)
        return;
    fprintf(file, "%s %s%s%s\n", setter, gpu->uuid, *arguments ? " " : "", arguments);
    fclose(file);
}

/* Whether a setter may go on; it has been logged either way. */
static Return admit(Device gpu, const char *setter, const char *arguments)
{
    unsigned administrators[64];
    CHECKED(gpu);
    log_call(gpu, setter, arguments);
    if (has_fault(gpu, "refused"))
        return NO_PERMISSION;
    if (is_privileged())
        return SUCCESS;
    int num = read_numbers(gpu->uuid, "administrators", administrators, 64);
    for (int i = 0; i < num; i++)
        if (administrators[i] == (unsigned)getpid())
            return SUCCESS;
    return NO_PERMISSION;
}

static Return lock(Device gpu, const char *setter, const char *grid, const char *name,
                   unsigned lowest, unsigned highest)
{
    char range[64];
    snprintf(range, sizeof range, "%u %u", lowest, highest);
    Return status = admit(gpu, setter, range);
    if (status)
        return status;
    if (!is_listed(gpu, grid, lowest) || !is_listed(gpu, grid, highest) || lowest > highest)
        return INVALID_ARGUMENT;
    return write_file(gpu->uuid, name, range) ? SUCCESS : UNKNOWN;
}

static Return unlock(Device gpu, const char *setter, const char *name)
{
    Return status = admit(gpu, setter, "");
    if (status)
        return status;
    return remove_file(gpu->uuid, name) ? SUCCESS : UNKNOWN;
}

Return nvmlDeviceSetGpuLockedClocks(Device gpu, unsigned lowest, unsigned highest)
{
    return lock(gpu, __func__, "sm_clocks_mhz", "locked_sm_mhz", lowest, highest);
}

Return nvmlDeviceResetGpuLockedClocks(Device gpu)
{
    return unlock(gpu, __func__, "locked_sm_mhz");
}

#ifndef BRANCH_535
Return nvmlDeviceSetMemoryLockedClocks(Device gpu, unsigned lowest, unsigned highest)
{
    return lock(gpu, __func__, "mem_clocks_mhz", "locked_mem_mhz", lowest, highest);
}

Return nvmlDeviceResetMemoryLockedClocks(Device gpu)
{
    return unlock(gpu, __func__, "locked_mem_mhz");
}
#endif

Return nvmlDeviceSetPowerManagementLimit(Device gpu, unsigned limit_mw)
{
    char text[32];
    unsigned range[3];
    snprintf(text, sizeof text, "%u", limit_mw);
    Return status = admit(gpu, __func__, text);
    if (status)
        return status;
    if (read_numbers(gpu->uuid, "power_limit_range_mw", range, 3) != 3)
        return NOT_SUPPORTED;
    if (limit_mw < range[0] || limit_mw > range[1])
        return INVALID_ARGUMENT;
    if (limit_mw == range[2])
        return remove_file(gpu->uuid, "power_limit_mw") ? SUCCESS : UNKNOWN;
    return write_file(gpu->uuid, "power_limit_mw", text) ? SUCCESS : UNKNOWN;
}
