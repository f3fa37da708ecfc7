! SLEDs for Fortran: estimates of the time to read each part of a file.
!
! After "Latency Management in Storage Systems", Rodney Van Meter and Minxi Gao, OSDI 2000. The paper
! also made its functions available to Fortran programs (section 5.3). The functions have the names
! of sleds.h, which documents them. This module contains their interfaces, except for
! sleds_device_name and sleds_reader_open_path. A reader is a c_ptr. It adds two features that Fortran lacks: a file descriptor, and a read at a
! byte offset.
!
!     gfortran sleds.f90 program.f90 $(pkg-config --cflags --libs sleds)
module sleds
    use, intrinsic :: iso_c_binding
    implicit none
    private

    integer(c_int), parameter, public :: sleds_linear = 0
    integer(c_int), parameter, public :: sleds_best = 1
    integer(c_int), parameter, public :: sleds_auto = 2
    integer(c_int), parameter, public :: sleds_no_records = -1

    ! Levels of a part, and sources of its numbers. sleds_unknown is a level and a source.
    integer(c_int32_t), parameter, public :: sleds_memory = 0
    integer(c_int32_t), parameter, public :: sleds_device = 1
    integer(c_int32_t), parameter, public :: sleds_unknown = -1
    integer(c_int32_t), parameter, public :: sleds_measured = 0
    integer(c_int32_t), parameter, public :: sleds_default = 1
    integer(c_int32_t), parameter, public :: sleds_observed = 2

    ! A part of a file. Offset and length are in bytes, latencies in seconds, bandwidths in bytes per
    ! second. Unknown latencies and bandwidths are negative.
    type, bind(c), public :: sleds_sled
        integer(c_int64_t) :: offset
        integer(c_int64_t) :: length
        real(c_double) :: latency
        real(c_double) :: latency_low
        real(c_double) :: latency_high
        real(c_double) :: bandwidth
        real(c_double) :: bandwidth_low
        real(c_double) :: bandwidth_high
        integer(c_int32_t) :: level
        integer(c_int32_t) :: source
    end type sleds_sled

    ! An open file.
    type, public :: sleds_file
        integer(c_int) :: fd = -1
        type(c_ptr), private :: stream = c_null_ptr
    end type sleds_file

    public :: sleds_open, sleds_read, sleds_close
    public :: sleds_get, sleds_pick_init, sleds_pick_next_read, sleds_pick_refresh
    public :: sleds_pick_finish, sleds_total_delivery_time, sleds_delivery_range
    public :: ff_sleds_pick_init, ff_sleds_pick_next_read, ff_sleds_pick_finish
    public :: sleds_reader_open, ff_sleds_reader_open, sleds_reader_next
    public :: sleds_reader_plan, sleds_reader_close

    interface
        function sleds_get(fd, sleds, room) result(count) bind(c)
            import
            integer(c_int), value :: fd
            type(sleds_sled), intent(out) :: sleds(*)
            integer(c_int64_t), value :: room
            integer(c_int64_t) :: count
        end function sleds_get

        function sleds_pick_init(fd, preferred_size, record_separator) result(size) bind(c)
            import
            integer(c_int), value :: fd
            integer(c_int64_t), value :: preferred_size
            integer(c_int), value :: record_separator
            integer(c_int64_t) :: size
        end function sleds_pick_init

        function sleds_pick_next_read(fd, offset, nbytes) result(more) bind(c)
            import
            integer(c_int), value :: fd
            integer(c_int64_t), intent(out) :: offset
            integer(c_int64_t), intent(out) :: nbytes
            integer(c_int) :: more
        end function sleds_pick_next_read

        function sleds_pick_refresh(fd) result(status) bind(c)
            import
            integer(c_int), value :: fd
            integer(c_int) :: status
        end function sleds_pick_refresh

        function sleds_pick_finish(fd) result(status) bind(c)
            import
            integer(c_int), value :: fd
            integer(c_int) :: status
        end function sleds_pick_finish

        function sleds_total_delivery_time(fd, plan) result(seconds) bind(c)
            import
            integer(c_int), value :: fd
            integer(c_int), value :: plan
            real(c_double) :: seconds
        end function sleds_total_delivery_time

        function sleds_delivery_range(fd, plan, low, high) result(status) bind(c)
            import
            integer(c_int), value :: fd
            integer(c_int), value :: plan
            real(c_double), intent(out) :: low
            real(c_double), intent(out) :: high
            integer(c_int) :: status
        end function sleds_delivery_range

        function ff_sleds_pick_init(fd, first_byte, element_size, preferred_elements) &
            result(elements) bind(c)
            import
            integer(c_int), value :: fd
            integer(c_int64_t), value :: first_byte
            integer(c_int64_t), value :: element_size
            integer(c_int64_t), value :: preferred_elements
            integer(c_int64_t) :: elements
        end function ff_sleds_pick_init

        function ff_sleds_pick_next_read(fd, element, count) result(more) bind(c)
            import
            integer(c_int), value :: fd
            integer(c_int64_t), intent(out) :: element
            integer(c_int64_t), intent(out) :: count
            integer(c_int) :: more
        end function ff_sleds_pick_next_read

        function ff_sleds_pick_finish(fd) result(status) bind(c)
            import
            integer(c_int), value :: fd
            integer(c_int) :: status
        end function ff_sleds_pick_finish

        function sleds_reader_open(fd, plan, preferred_size, record_separator) result(reader) bind(c)
            import
            integer(c_int), value :: fd
            integer(c_int), value :: plan
            integer(c_int64_t), value :: preferred_size
            integer(c_int), value :: record_separator
            type(c_ptr) :: reader
        end function sleds_reader_open

        function ff_sleds_reader_open(fd, plan, first_byte, element_size, preferred_elements) &
            result(reader) bind(c)
            import
            integer(c_int), value :: fd
            integer(c_int), value :: plan
            integer(c_int64_t), value :: first_byte
            integer(c_int64_t), value :: element_size
            integer(c_int64_t), value :: preferred_elements
            type(c_ptr) :: reader
        end function ff_sleds_reader_open

        function sleds_reader_next(reader, data, nbytes, offset) result(more) bind(c)
            import
            type(c_ptr), value :: reader
            type(c_ptr), intent(out) :: data
            integer(c_int64_t), intent(out) :: nbytes
            integer(c_int64_t), intent(out) :: offset
            integer(c_int) :: more
        end function sleds_reader_next

        function sleds_reader_plan(reader) result(plan) bind(c)
            import
            type(c_ptr), value :: reader
            integer(c_int) :: plan
        end function sleds_reader_plan

        function sleds_reader_close(reader) result(status) bind(c)
            import
            type(c_ptr), value :: reader
            integer(c_int) :: status
        end function sleds_reader_close

        function c_fopen(path, mode) result(stream) bind(c, name='fopen')
            import
            character(kind=c_char), intent(in) :: path(*)
            character(kind=c_char), intent(in) :: mode(*)
            type(c_ptr) :: stream
        end function c_fopen

        function c_fileno(stream) result(fd) bind(c, name='fileno')
            import
            type(c_ptr), value :: stream
            integer(c_int) :: fd
        end function c_fileno

        function c_fclose(stream) result(status) bind(c, name='fclose')
            import
            type(c_ptr), value :: stream
            integer(c_int) :: status
        end function c_fclose

        function c_pread(fd, buffer, nbytes, offset) result(count) bind(c, name='pread')
            import
            integer(c_int), value :: fd
            type(c_ptr), value :: buffer
            integer(c_size_t), value :: nbytes
            integer(c_int64_t), value :: offset
            integer(c_size_t) :: count
        end function c_pread
    end interface

contains

    ! Opens a file for reading. The fd of the result is negative on failure.
    function sleds_open(path) result(file)
        character(len=*), intent(in) :: path
        type(sleds_file) :: file
        file%stream = c_fopen(trim(path) // c_null_char, 'rb' // c_null_char)
        if (c_associated(file%stream)) file%fd = c_fileno(file%stream)
    end function sleds_open

    ! Reads nbytes at a byte offset into the memory that buffer points to (c_loc). Returns the number
    ! of bytes read, which is less than nbytes only at the end of the file; negative on failure.
    function sleds_read(file, buffer, nbytes, offset) result(total)
        type(sleds_file), intent(in) :: file
        type(c_ptr), intent(in) :: buffer
        integer(c_int64_t), intent(in) :: nbytes
        integer(c_int64_t), intent(in) :: offset
        integer(c_int64_t) :: total, count
        character(kind=c_char), pointer :: bytes(:)
        total = 0
        if (nbytes <= 0) return
        call c_f_pointer(buffer, bytes, [nbytes])
        do while (total < nbytes)
            count = int(c_pread(file%fd, c_loc(bytes(total + 1)), int(nbytes - total, c_size_t), &
                offset + total), c_int64_t)
            if (count < 0) total = count
            if (count <= 0) return
            total = total + count
        end do
    end function sleds_read

    ! Closes the file.
    subroutine sleds_close(file)
        type(sleds_file), intent(inout) :: file
        integer(c_int) :: status
        if (c_associated(file%stream)) status = c_fclose(file%stream)
        file%stream = c_null_ptr
        file%fd = -1
    end subroutine sleds_close

end module sleds
