"""Devices and their memory, by ONNX Runtime's names. They only say where values are: sessions allocate by themselves."""

import enum

from . import providers
from ._native import _core
from .errors import OptionError, UnsupportedOptionError, UsageError


class OrtDeviceVendorId(enum.IntEnum):
    """Vendor numbers of the PCI registry."""

    NONE = 0x0000
    AMD = 0x1002
    NVIDIA = 0x10DE
    ARM = 0x13B5
    MICROSOFT = 0x1414
    HUAWEI = 0x19E5
    QUALCOMM = 0x5143
    INTEL = 0x8086


class OrtAllocatorType(enum.IntEnum):
    INVALID = -1
    ORT_DEVICE_ALLOCATOR = 0
    ORT_ARENA_ALLOCATOR = 1


class OrtMemType(enum.IntEnum):
    CPU_INPUT = -2
    CPU_OUTPUT = -1
    CPU = -1
    DEFAULT = 0


class OrtDeviceMemoryType(enum.IntEnum):
    DEFAULT = 0
    HOST_ACCESSIBLE = 5


class OrtMemoryInfoDeviceType(enum.IntEnum):
    CPU = 0
    GPU = 1
    FPGA = 2
    NPU = 3


class OrtHardwareDeviceType(enum.IntEnum):
    CPU = 0
    GPU = 1
    NPU = 2


# Device types and vendors by the names that programs write.
_DEVICES = {
    "cpu": (0, OrtDeviceVendorId.NONE),
    "cuda": (1, OrtDeviceVendorId.NVIDIA),
    "gpu": (1, OrtDeviceVendorId.NONE),
    "webgpu": (1, OrtDeviceVendorId.NONE),
    "dml": (1, OrtDeviceVendorId.MICROSOFT),
    "npu": (3, OrtDeviceVendorId.NONE),
    "cann": (3, OrtDeviceVendorId.HUAWEI),
}


class OrtDevice:
    """A device and a kind of its memory: OrtDevice.make("cuda", 0)."""

    def __init__(self, device_type, memory_type=None, *numbers):
        """Arguments as ONNX Runtime's: (type, memory, [vendor,] id), all of them numbers."""
        if isinstance(device_type, OrtDevice):
            self._parts = device_type._parts
            return
        if memory_type is None or len(numbers) not in (1, 2):
            raise UsageError("a device is made by OrtDevice.make(name, id)")
        vendor, number = numbers if len(numbers) == 2 else (0, numbers[0])
        self._parts = (int(device_type), int(memory_type), int(vendor), int(number))

    @staticmethod
    def make(ort_device_name, device_id, vendor_id=-1):
        """By its name: "cpu", "cuda", "gpu", "npu", ... Without a vendor, the one that the name implies."""
        if ort_device_name not in _DEVICES:
            raise UsageError(f"Unsupported device type: {ort_device_name}", hint=f"there are {', '.join(_DEVICES)}")
        kind, vendor = _DEVICES[ort_device_name]
        return OrtDevice(kind, OrtDevice.default_memory(), vendor if vendor_id < 0 else vendor_id, device_id)

    @staticmethod
    def default_memory():
        return int(OrtDeviceMemoryType.DEFAULT)

    def device_type(self):
        return self._parts[0]

    def device_mem_type(self):
        return self._parts[1]

    def device_vendor_id(self):
        return self._parts[2]

    def device_id(self):
        return self._parts[3]

    def _get_c_device(self):
        return self

    def __repr__(self):
        return f"OrtDevice{self._parts}"


for _name, (_kind, _vendor) in _DEVICES.items():
    setattr(OrtDevice, _name, staticmethod(lambda kind=_kind: kind))


class OrtMemoryInfo:
    """A kind of memory: the name of its allocator, the allocator's kind, the device's number, its use."""

    _NAMES = {"Cpu": (0, 0), "Cuda": (1, int(OrtDeviceVendorId.NVIDIA)), "CudaPinned": (1, int(OrtDeviceVendorId.NVIDIA))}

    def __init__(self, name, allocator_type, device_id, mem_type):
        if name not in self._NAMES:
            raise OptionError(f"Specified device is not supported: {name}", hint=f"there are {', '.join(self._NAMES)}")
        self.name = name
        self.allocator_type = OrtAllocatorType(allocator_type)
        self.device_id = int(device_id)
        self.mem_type = OrtMemType(mem_type)
        self.device_mem_type = OrtDeviceMemoryType.HOST_ACCESSIBLE if name == "CudaPinned" else OrtDeviceMemoryType.DEFAULT
        self.device_vendor_id = self._NAMES[name][1]

    @staticmethod
    def create_v2(name, device_type, vendor_id, device_id, mem_type, alignment, allocator_type):
        """The memory of any device."""
        info = OrtMemoryInfo.__new__(OrtMemoryInfo)
        OrtMemoryInfoDeviceType(device_type)
        info.name = str(name)
        info.allocator_type = OrtAllocatorType(allocator_type)
        info.device_id, info.device_vendor_id = int(device_id), int(vendor_id)
        info.mem_type = OrtMemType.DEFAULT
        info.device_mem_type = OrtDeviceMemoryType(mem_type)
        return info


class OrtArenaCfg:
    """The growth of ONNX Runtime's arenas. Accepted for compatibility; there are no arenas here."""

    _FIELDS = (
        "max_mem", "arena_extend_strategy", "initial_chunk_size_bytes", "max_dead_bytes_per_chunk",
        "initial_growth_chunk_size_bytes", "max_power_of_two_extend_bytes",
    )  # fmt: skip
    __slots__ = _FIELDS

    def __init__(self, *numbers):
        """Either a dict of these fields, or the first four of them."""
        given = numbers[0] if len(numbers) == 1 and isinstance(numbers[0], dict) else dict(zip(self._FIELDS, numbers))
        if len(numbers) not in (1, 4) or (len(numbers) == 1 and not isinstance(numbers[0], dict)):
            raise TypeError("give four numbers, or a dict")
        for field in given:
            if field not in self._FIELDS:
                raise OptionError(f"Invalid OrtArenaCfg option: {field}", hint=f"there are {', '.join(self._FIELDS)}")
        for field in self._FIELDS:
            setattr(self, field, int(given.get(field, 0 if field == "max_mem" else -1)))


def create_and_register_allocator(memory_info, arena_cfg=None):
    """Accepted for compatibility with ONNX Runtime: sessions need no registered allocator."""
    if not isinstance(memory_info, OrtMemoryInfo) or not isinstance(arena_cfg, (OrtArenaCfg, type(None))):
        raise TypeError("give an OrtMemoryInfo, and an OrtArenaCfg or None")


def create_and_register_allocator_v2(provider_type, memory_info, provider_options, arena_cfg=None):
    """The option for a provider."""
    providers.check_known(provider_type)
    create_and_register_allocator(memory_info, arena_cfg)


class OrtHardwareDevice:
    """A processor that sessions can run on."""

    def __init__(self, type, vendor, vendor_id, device_id):
        self.type, self.vendor, self.vendor_id, self.device_id, self.metadata = type, vendor, vendor_id, device_id, {}


class OrtEpDevice:
    """A processor and the provider that runs on it, for SessionOptions.add_provider_for_devices."""

    def __init__(self, ep_name, device):
        self.ep_name, self.ep_vendor, self.device = ep_name, "Rewright", device
        self.ep_metadata, self.ep_options = {"version": _core.__version__}, {}

    def memory_info(self, memory_type):
        name = "Cpu" if self.ep_name == providers.CPU else "Cuda"
        return OrtMemoryInfo(name, OrtAllocatorType.ORT_DEVICE_ALLOCATOR, self.device.device_id, OrtMemType.DEFAULT)

    def create_sync_stream(self):
        raise UnsupportedOptionError("sessions have streams of their own")


def get_ep_devices():
    """The devices that sessions can run on here, as OrtEpDevice."""
    found = [OrtEpDevice(providers.CPU, OrtHardwareDevice(OrtHardwareDeviceType.CPU, "", 0, 0))]
    if _core.has_cuda_device():
        gpu = OrtHardwareDevice(OrtHardwareDeviceType.GPU, "NVIDIA", int(OrtDeviceVendorId.NVIDIA), 0)
        found.append(OrtEpDevice(providers.CUDA, gpu))
    return found
