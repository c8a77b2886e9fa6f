function data = readNPY(path)
  % readNPY  The array in a file of NumPy's format npy, versions 1.0 to 3.0.
  %
  %   x = sigbank.readNPY('trace.npy');
  %
  % Numbers, booleans and complex numbers come as their own class (float16 as single), in either byte order, C or Fortran order. Shapes are NumPy's
  % but that a vector of n is n x 1 and a scalar 1 x 1. Texts come as a cell array; datetime64 and timedelta64 as int64 counts of
  % their unit. Pickled objects and structures are refused.
  fid = fopen(path, 'r', 'ieee-le');
  if fid < 0
    error('sigbank:notFound', '%s: there is no such file', path);
  end
  closer = onCleanup(@() fclose(fid));
  magic = fread(fid, [1, 6], 'uint8');
  if ~isequal(magic, [147, double('NUMPY')])
    error('sigbank:corrupt', '%s: this is no npy file', path);
  end
  version = fread(fid, 2, 'uint8');
  if version(1) == 1
    len = fread(fid, 1, 'uint16');
  else
    len = fread(fid, 1, 'uint32');
  end
  header = fread(fid, [1, len], '*char');
  descr = regexp(header, '''descr''\s*:\s*''([^'']*)''', 'tokens', 'once');
  order = regexp(header, '''fortran_order''\s*:\s*(True|False)', 'tokens', 'once');
  shape = regexp(header, '''shape''\s*:\s*\(([^)]*)\)', 'tokens', 'once');
  if isempty(descr) || isempty(order) || isempty(shape)
    error('sigbank:unsupported', '%s: a header that is not understood (structures are not read): %s', path, strtrim(header));
  end
  shape = str2double(regexp(shape{1}, '\d+', 'match'));
  [endian, kind, width] = parts(descr{1}, path);
  count = prod(shape);
  data = elements(fid, kind, width, endian, count, path);
  data = arrange(data, shape, strcmp(order{1}, 'True'));
end

function [endian, kind, width] = parts(descr, path)
  tokens = regexp(descr, '^([<>|=]?)([a-zA-Z])(\d*)', 'tokens', 'once');
  if isempty(tokens) || any(tokens{2} == 'OV')
    error('sigbank:unsupported', '%s: elements of the type ''%s'' are not read', path, descr);
  end
  endian = 'ieee-le';
  if strcmp(tokens{1}, '>')
    endian = 'ieee-be';
  end
  kind = tokens{2};
  width = str2double(tokens{3});
end

function data = elements(fid, kind, width, endian, count, path)
  switch kind
    case 'b'
      data = logical(take(fid, count, 'uint8', endian, path));
    case 'i'
      data = take(fid, count, sprintf('int%d', 8 * width), endian, path);
    case 'u'
      data = take(fid, count, sprintf('uint%d', 8 * width), endian, path);
    case {'M', 'm'}
      data = take(fid, count, 'int64', endian, path);
    case 'f'
      data = floats(fid, count, width, endian, path);
    case 'c'
      both = floats(fid, 2 * count, width / 2, endian, path);
      data = complex(both(1:2:end), both(2:2:end));
    case 'S'
      bytes = reshape(take(fid, count * width, 'uint8', endian, path), width, count);
      data = texts(double(bytes), @(codes) char(codes'));
    case 'U'
      codes = reshape(take(fid, count * width, 'uint32', endian, path), width, count);
      data = texts(double(codes), @(codes) native2unicode(unicode_bytes(codes), 'UTF-8'));
    otherwise
      error('sigbank:unsupported', '%s: elements of the kind ''%s'' are not read', path, kind);
  end
end

function data = take(fid, count, class, endian, path)
  data = fread(fid, count, ['*' class], 0, endian);
  if numel(data) ~= count
    error('sigbank:corrupt', '%s: %d elements are expected, but %d are there: the file was cut short', path, count, numel(data));
  end
end

function data = floats(fid, count, width, endian, path)
  switch width
    case 2
      bits = double(take(fid, count, 'uint16', endian, path));
      exponent = floor(mod(bits, 32768) / 1024);
      fraction = mod(bits, 1024);
      data = (1 + fraction / 1024) .* 2 .^ (exponent - 15);
      data(exponent == 0) = fraction(exponent == 0) * 2 ^ -24;
      data(exponent == 31 & fraction == 0) = Inf;
      data(exponent == 31 & fraction > 0) = NaN;
      data = single(data .* (1 - 2 * (bits >= 32768)));
    case 4
      data = take(fid, count, 'single', endian, path);
    case 8
      data = take(fid, count, 'double', endian, path);
    otherwise
      error('sigbank:unsupported', '%s: floats of %d bytes are not read', path, width);
  end
end

function data = texts(codes, text)
  data = cell(size(codes, 2), 1);
  for k = 1:size(codes, 2)
    one = codes(:, k);
    last = find(one, 1, 'last');
    data{k} = '';
    if ~isempty(last)
      data{k} = text(one(1:last));
    end
  end
end

function bytes = unicode_bytes(codes)
  % UTF-8 of code points.
  bytes = uint8([]);
  for c = codes'
    if c < 128
      more = c;
    elseif c < 2048
      more = [192 + floor(c / 64), 128 + mod(c, 64)];
    elseif c < 65536
      more = [224 + floor(c / 4096), 128 + mod(floor(c / 64), 64), 128 + mod(c, 64)];
    else
      more = [240 + floor(c / 262144), 128 + mod(floor(c / 4096), 64), 128 + mod(floor(c / 64), 64), 128 + mod(c, 64)];
    end
    bytes = [bytes, uint8(more)];
  end
end

function data = arrange(data, shape, fortran)
  % From the file's order to a matrix of the shape.
  if numel(shape) < 2
    data = reshape(data, [prod(shape), 1]);
  elseif fortran
    data = reshape(data, shape);
  else
    data = permute(reshape(data, fliplr(shape)), numel(shape):-1:1);
  end
end
